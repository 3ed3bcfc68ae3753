"""How does a demo process name itself, log, and end with its parent?"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
import time
import traceback

_PR_SET_PDEATHSIG = 1
_PR_SET_NAME = 15
_PR_SET_CHILD_SUBREAPER = 36


def die_with_parent(parent: int) -> None:
    """Ask the kernel for SIGTERM when the parent ends; leave if it has ended already."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(143)


def adopt_orphans() -> None:
    """Become the parent of descendants whose own parent ends, so that they can be waited for."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def set_title(title: str) -> None:
    """Overwrite this process's arguments, as setproctitle does: /proc/PID/cmdline is the title, padded with blanks."""
    ctypes.CDLL(None).prctl(_PR_SET_NAME, title.encode()[:15], 0, 0, 0)
    with contextlib.suppress(OSError, ValueError, IndexError):
        with open("/proc/self/stat") as stat:
            fields = stat.read().rpartition(")")[2].split()
        start, end = int(fields[45]), int(fields[46])  # arg_start and arg_end; zero where the kernel hides them
        size = end - start
        if start and size > 1:
            ctypes.memmove(start, title.encode()[: size - 1].ljust(size - 1) + b"\0", size)


def log(process: str, source: str, text: str, level: str = "INFO") -> None:
    """Write one line in vLLM's form; a single write, so that lines of many processes do not mix."""
    who = f"({process} pid={os.getpid()}) " if process else ""
    stamp = time.strftime("%m-%d %H:%M:%S")
    _write(f"{who}{level} {stamp} [{source}] {text}\n")


def log_failure(process: str, source: str, text: str) -> None:
    """Write the exception being handled as vLLM does: every line of the traceback an ERROR line."""
    log(process, source, text, "ERROR")
    for line in traceback.format_exc().splitlines():
        log(process, source, line, "ERROR")


def plain(text: str) -> None:
    """Write a line of another library's form (uvicorn's)."""
    _write(f"{text}\n")


def bar(text: str, *, last: bool) -> None:
    """Write one state of a progress bar to stderr; it replaces the one before, as on a terminal."""
    sys.stderr.write(f"\r{text}" + ("\n" if last else ""))
    sys.stderr.flush()


def _write(text: str) -> None:
    with contextlib.suppress(BrokenPipeError):
        os.write(1, text.encode())
