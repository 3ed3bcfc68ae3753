"""How is a whole file brought by hf_transfer, which cannot be watched, stopped or believed?"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from kboot.errors import SourceError
from kboot.host.clock import monotonic_s
from kboot.sources.secrets import mask, without_query

CONNECTIONS = 8
CHUNK_BYTES = 16 << 20
_LOOK_S = 0.25
_SAID_BYTES = 1000


def transfer(
    url: str, path: Path, stall_timeout_s: float, stop: threading.Event, on_bytes: Callable[[int], None]
) -> None:
    """Bring what `url` gives to `path`, by a worker process that ends with this one. The bytes are unproven.

    url: gives the bytes without a token, for the library would pass one on to whoever it is redirected to.
    on_bytes: told now and then how many bytes are on the disk.

    Raises:
        SourceError: code "transport-failed" when it failed or brought nothing for stall_timeout_s, "interrupted" when
            told to stop; the worker is gone and so is its file.
    """
    argv = [sys.executable, "-P", "-m", "kboot.sources.hf_transfer_worker"]
    env = {name: value for name, value in os.environ.items() if "TOKEN" not in name}
    ask = {
        "parent": os.getpid(),
        "url": url,
        "path": str(path),
        "connections": CONNECTIONS,
        "chunk_bytes": CHUNK_BYTES,
    }
    with subprocess.Popen(
        argv, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=env
    ) as worker:
        try:
            assert worker.stdin is not None and worker.stderr is not None
            with suppress(BrokenPipeError):
                worker.stdin.write(json.dumps(ask).encode())
                worker.stdin.close()
            why = _watch(worker, path, stall_timeout_s, stop, on_bytes)
            said = "" if why else worker.stderr.read(_SAID_BYTES).decode("utf-8", "replace").strip()
        except BaseException:
            worker.kill()
            raise
    if worker.returncode == 0 and not why:
        return
    with suppress(OSError):
        os.unlink(path)
    if stop.is_set():
        raise SourceError("interrupted", "the transfer was told to stop")
    said = why or mask(said.rpartition("\n")[2]) or f"it ended with status {worker.returncode}"
    raise SourceError("transport-failed", f"hf_transfer failed: {said}", where=(without_query(url),), retry=True)


def _watch(
    worker: subprocess.Popen[bytes],
    path: Path,
    stall_timeout_s: float,
    stop: threading.Event,
    on_bytes: Callable[[int], None],
) -> str:
    """Wait for the worker's end; return why it was ended before, or nothing."""
    seen_bytes, since_s = 0, monotonic_s()
    while worker.poll() is None:
        if stop.wait(_LOOK_S):
            worker.kill()
            return "it was told to stop"
        here_bytes = _taken_bytes(path)
        if here_bytes != seen_bytes:
            seen_bytes, since_s = here_bytes, monotonic_s()
            on_bytes(here_bytes)
        elif monotonic_s() - since_s > stall_timeout_s:
            worker.kill()
            return f"it brought nothing for {stall_timeout_s:g} s"
    return ""


def _taken_bytes(path: Path) -> int:
    # Chunks land in any order, so that the length says nothing.
    try:
        return os.stat(path).st_blocks * 512
    except OSError:
        return 0
