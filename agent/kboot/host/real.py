"""What does this machine answer? The Host that every command asks unless it was given a recorded tree."""

from __future__ import annotations

import errno
import os
import resource
import shutil
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from kboot.host.kernel_clock import KernelClock, kernel_clock
from kboot.host.kernel_log import read_kernel_log
from kboot.host.nvml import Driver
from kboot.host.plain_file import open_plain
from kboot.host.types import DiskSpace, Printed

_LIMITS = {
    "nofile": resource.RLIMIT_NOFILE,
    "memlock": resource.RLIMIT_MEMLOCK,
    "nproc": resource.RLIMIT_NPROC,
    "stack": resource.RLIMIT_STACK,
}
_ADMIN_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class RealHost:
    """This machine."""

    live = True

    def __init__(self) -> None:
        self._driver = Driver()

    def machine_path(self, path: Path) -> str:
        """Return the path as it is."""
        return str(path)

    def read_text(self, path: str, limit_bytes: int = 1 << 20) -> str:
        """Return the file's text, stripped of trailing newlines; no more than the limit is read."""
        return read_limited(path, limit_bytes)

    def read_bytes(self, path: str, limit_bytes: int) -> bytes:
        """Return the file's bytes as they are; no more than the limit is read."""
        return read_raw(path, limit_bytes)

    def names(self, path: str) -> tuple[str, ...]:
        """Return the sorted names in a folder."""
        return text_names(path)

    def exists(self, path: str) -> bool:
        """Return whether the path exists (links followed)."""
        return os.path.exists(path)

    def link_target(self, path: str) -> str:
        """Return what a symbolic link says, not resolved."""
        return os.readlink(path)

    def disk_space(self, path: str) -> DiskSpace:
        """Return the space of the file system that holds the path (or its nearest existing parent)."""
        while True:
            try:
                found = os.statvfs(path)
            except (FileNotFoundError, NotADirectoryError):
                if path == os.path.dirname(path):
                    raise
                path = os.path.dirname(path)
            else:
                if not found.f_blocks:
                    raise OSError(errno.ENODATA, "this file system does not say how much room it has", path)
                return DiskSpace(found.f_blocks * found.f_frsize, found.f_bavail * found.f_frsize, found.f_favail)

    def affinity(self) -> frozenset[int]:
        """Return the CPUs this process may run on."""
        return frozenset(os.sched_getaffinity(0))

    def nvml(self, timeout_s: float) -> Mapping[str, Any]:
        """Return NVML's answers in the shape of nvml.json, from a child killed at the deadline; see Driver.ask."""
        return self._driver.ask(timeout_s, os.environ)

    def kernel_log(self) -> str:
        """Return the kernel's messages since boot, one a line."""
        return read_kernel_log()

    def program(self, argv: Sequence[str], timeout_s: float) -> Printed:
        """Return what a program prints, killed at the deadline.

        It gets the operator's settings of NCCL and of libraries: an engine would run under them as well.
        """
        from kboot.host.processes import run

        path = f"{os.environ.get('PATH', '')}:{_ADMIN_PATH}"
        found = shutil.which(argv[0], path=path)
        if found is None:
            raise FileNotFoundError(errno.ENOENT, "is not installed", argv[0])
        settings = {n: v for n, v in os.environ.items() if n.startswith("NCCL_") or n == "LD_LIBRARY_PATH"}
        done = run((found, *argv[1:]), timeout_s, env={**settings, "PATH": path, "LC_ALL": "C"})
        if done.timed_out:
            raise TimeoutError(errno.ETIMEDOUT, f"no answer in {timeout_s:g} s", argv[0])
        return Printed(done.status, done.stdout.decode(errors="replace"))

    def clock(self) -> KernelClock:
        """Return whether the kernel's clock is kept right."""
        return kernel_clock()

    def environ(self) -> Mapping[str, str]:
        """Return a copy of this process's environment."""
        return dict(os.environ)

    def uid(self) -> int:
        """Return the effective user id."""
        return os.geteuid()

    def hostname(self) -> str:
        """Return the node's name."""
        return socket.gethostname()

    def limits(self) -> Mapping[str, tuple[int | None, int | None]]:
        """Return soft and hard limits by name; None is infinity."""
        found: dict[str, tuple[int | None, int | None]] = {}
        for name, which in _LIMITS.items():
            soft, hard = (None if value == resource.RLIM_INFINITY else value for value in resource.getrlimit(which))
            found[name] = (soft, hard)
        return found


def read_limited(path: str | Path, limit_bytes: int) -> str:
    """Return up to `limit_bytes` of a file as text, trailing newlines stripped; bytes that are no UTF-8 become U+FFFD.

    Raises:
        OSError: not readable, or no file.
    """
    return read_raw(path, limit_bytes).decode("utf-8", errors="replace").rstrip("\n")


def read_raw(path: str | Path, limit_bytes: int) -> bytes:
    """Return up to `limit_bytes` of a file.

    Raises:
        OSError: not readable, or no file.
    """
    with os.fdopen(open_plain(path), "rb", buffering=0) as file:
        parts: list[bytes] = []
        left = limit_bytes
        while left > 0 and (part := file.read(min(left, 1 << 16))):  # procfs gives a page at a time
            parts.append(part)
            left -= len(part)
    return b"".join(parts)


def text_names(path: str | Path) -> tuple[str, ...]:
    """Return the sorted names in a folder, without those that are no UTF-8: neither the kernel nor kboot gives such.

    Raises:
        OSError: not a readable folder.
    """
    return tuple(sorted(name for name in os.listdir(path) if not any("\ud800" <= c <= "\udfff" for c in name)))
