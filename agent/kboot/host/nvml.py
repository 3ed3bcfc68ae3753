"""What does NVML answer, inside a deadline, whatever state the driver is in?"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from kboot.host.clock import monotonic_s

LIBRARY = "libnvidia-ml.so.1"
_LD_CACHE = "/etc/ld.so.cache"
_DEFAULT_DIRS = (
    "/lib",
    "/lib64",
    "/usr/lib",
    "/usr/lib64",
    f"/lib/{os.uname().machine}-linux-gnu",
    f"/usr/lib/{os.uname().machine}-linux-gnu",
)
_REAP_S = 1.0
ASK_AGAIN_S = 60.0
"""So long a driver that hung is not asked again: every question to it would cost its whole deadline."""


def ask_nvml(timeout_s: float, environ: Mapping[str, str]) -> Mapping[str, Any]:
    """Return the answers of a child process in the shape of nvml.json.

    No child is started where the loader would not find the library: {"nvml_init": "LIBRARY_NOT_FOUND"}. A child
    that does not answer is killed, and left to the kernel when even that does not end it: {"nvml_init": "TIMEOUT"}.

    Raises:
        OSError: no process can be started.
    """
    if not library_installed(environ):
        return {"nvml_init": "LIBRARY_NOT_FOUND"}
    return ask_module("kboot.host.nvml_child", (str(timeout_s),), timeout_s, environ, "nvml_init")


class Driver:
    """NVML as one process asks it, which remembers for a while that it hung."""

    def __init__(self) -> None:
        self._hung: tuple[float, float] | None = None

    def ask(self, timeout_s: float, environ: Mapping[str, str]) -> Mapping[str, Any]:
        """Return what ask_nvml does; one that hung a moment ago is asked again only by who waits longer than then.

        Raises:
            OSError: no process can be started.
        """
        if self._hung is not None:
            at_s, waited_s = self._hung
            ago_s = monotonic_s() - at_s
            if timeout_s <= waited_s and ago_s < ASK_AGAIN_S:
                return {"nvml_init": "TIMEOUT", "detail": f"no answer in {waited_s:g} s, {ago_s:.0f} s ago"}
        answers = ask_nvml(timeout_s, environ)
        self._hung = (monotonic_s(), timeout_s) if answers.get("nvml_init") == "TIMEOUT" else None
        return answers


def ask_module(
    module: str, args: Sequence[str], timeout_s: float, environ: Mapping[str, str], key: str
) -> Mapping[str, Any]:
    """Return the JSON object that a module of ours prints when it runs as a program; see Begun.answers.

    Raises:
        OSError: no process can be started.
    """
    return Begun(module, args, environ, key).answers(timeout_s)


class Begun:
    """A module of ours that runs as a program and prints one JSON object. Ends with `answers` or `leave`."""

    def __init__(self, module: str, args: Sequence[str], environ: Mapping[str, str], key: str) -> None:
        """Start it. key: under which it is told how that went.

        Raises:
            OSError: no process can be started.
        """
        self._key = key
        self._child = subprocess.Popen(
            [sys.executable, "-P", "-m", module, *args],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=dict(environ),
        )

    def answers(self, timeout_s: float) -> Mapping[str, Any]:
        """Return what it printed.

        One that does not answer in time is killed, and left to the kernel when even that does not end it: {key:
        "TIMEOUT"}. One that ends otherwise is {key: "CRASHED"} with the reason in `detail`.
        """
        try:
            out, err = self._child.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            _abandon(self._child)
            return {self._key: "TIMEOUT", "detail": f"no answer in {round(timeout_s, 1):g} s"}
        return _answers(self._child.returncode, out, err, self._key)

    def leave(self) -> None:
        """End it where nobody waits for its answer any more."""
        if self._child.returncode is None:
            _abandon(self._child)


def library_installed(environ: Mapping[str, str], name: str = LIBRARY) -> bool:
    """Return whether the loader would find a library; costs a few stat calls and one small read."""
    dirs = [d for d in environ.get("LD_LIBRARY_PATH", "").split(":") if d]
    if any(os.path.exists(f"{folder}/{name}") for folder in (*dirs, *_DEFAULT_DIRS)):
        return True
    try:
        with open(_LD_CACHE, "rb") as file:
            return f"\0{name}\0".encode() in file.read()
    except OSError:
        return False


def _answers(status: int, out: bytes, err: bytes, key: str) -> Mapping[str, Any]:
    try:
        answers = json.loads(out)
    except ValueError:
        answers = None
    if status == 0 and isinstance(answers, dict):
        return answers
    ended = f"ended by {signal.Signals(-status).name}" if status < 0 else f"exit status {status}"
    last_line = err.decode(errors="replace").strip().rpartition("\n")[2]
    return {key: "CRASHED", "detail": f"its process {ended}: {last_line}".rstrip(": ")}


def _abandon(child: subprocess.Popen[bytes]) -> None:
    child.kill()
    for pipe in (child.stdout, child.stderr):
        if pipe is not None:
            pipe.close()
    # A child in uninterruptible sleep (state D) stays until the driver lets go; a thread of its own waits for that.
    waiter = threading.Thread(target=child.wait, name="nvml-reaper", daemon=True)
    waiter.start()
    waiter.join(_REAP_S)
