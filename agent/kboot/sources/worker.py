"""How does a library bring a whole file that cannot be watched, stopped or believed? In a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType

from kboot.errors import SourceError
from kboot.host.clock import monotonic_s
from kboot.sources.secrets import mask

_LOOK_S = 0.25
_SAID_BYTES = 1000


def bring(
    name: str,
    ask: Mapping[str, object],
    path: Path,
    stall_timeout_s: float,
    stop: threading.Event,
    on_bytes: Callable[[int], None],
    where: str,
    env: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Let the worker `kboot.sources.<name>_worker` bring a file to `path`; it ends with this process.

    ask: what it reads from its input, so that no secret stands in a command line or an environment; "parent" and
    "path" are added. on_bytes: told now and then how many bytes are on the disk. where: named in an error. env: over
    this process's own, from which tokens are taken out.

    Raises:
        SourceError: code "transport-failed" when it failed or brought nothing for stall_timeout_s, "interrupted" when
            told to stop; the worker is gone and so is its file.
    """
    argv = [sys.executable, "-P", "-m", f"kboot.sources.{name}_worker"]
    inherited = {key: value for key, value in os.environ.items() if "TOKEN" not in key}
    told = {"parent": os.getpid(), "path": str(path), **ask}
    with subprocess.Popen(
        argv, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env={**inherited, **env}
    ) as worker:
        try:
            assert worker.stdin is not None and worker.stderr is not None
            with suppress(BrokenPipeError):
                worker.stdin.write(json.dumps(told).encode())
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
    raise SourceError("transport-failed", f"{name} failed: {said}", where=(where,), retry=True)


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
