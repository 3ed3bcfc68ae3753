"""Who may change this now? A lock that the kernel releases when its holder dies, however it dies."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import socket
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from kboot.errors import ActionFailed
from kboot.host.clock import monotonic_s, sleep_s, unix_s
from kboot.host.os_errors import explain_os_error
from kboot.jsontext import parse_json

_POLL_S = 0.05


class FileLock:
    """An exclusive flock on a file that says who holds it: pid, host and start as JSON.

    The file stays behind when the lock is free: its existence means nothing, and removing it would let two
    processes lock two files of one name.
    """

    def __init__(self, path: Path, timeout_s: float) -> None:
        self.path = path
        self.timeout_s = timeout_s
        self._fd: int | None = None

    def acquire(self) -> None:
        """Take the lock, waiting at most timeout_s.

        Raises:
            ActionFailed: code "locked", naming the holder, when the deadline passes.
        """
        deadline = monotonic_s() + self.timeout_s
        try:
            fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as exc:
            raise explain_os_error(exc, "open the lock file", self.path) from exc
        try:
            while not self._try(fd):
                if monotonic_s() >= deadline:
                    raise self._locked()
                sleep_s(min(_POLL_S, max(0.0, deadline - monotonic_s())))
            _sign(fd)
        except BaseException:
            os.close(fd)
            raise
        self._fd = fd

    def beat(self) -> None:
        """Show whoever waits for the lock that its holder gets on; nothing when not held."""
        if self._fd is not None:
            with suppress(OSError):
                os.utime(self._fd)

    def last_beat(self) -> float:
        """Return when the holder took the lock or last called beat(), in Unix seconds; 0 where nobody ever did."""
        try:
            return os.stat(self.path).st_mtime
        except OSError:
            return 0.0

    def release(self) -> None:
        """Let go; nothing when not held. A file system that fails here has lost the lock anyway."""
        if self._fd is not None:
            fd, self._fd = self._fd, None
            with suppress(OSError):
                os.ftruncate(fd, 0)
            with suppress(OSError):
                os.close(fd)

    def __enter__(self) -> Self:
        self.acquire()
        return self

    def __exit__(self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None) -> None:
        self.release()

    def _try(self, fd: int) -> bool:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as exc:
            if exc.errno in (errno.EWOULDBLOCK, errno.EACCES, errno.EINTR):
                return False
            raise explain_os_error(exc, "lock the file", self.path) from exc
        return True

    def _locked(self) -> ActionFailed:
        return ActionFailed(
            "locked",
            f"held by {holder(self.path) or 'a process that did not say who it is'}, "
            f"waited {self.timeout_s:g} s for it to let go",
            where=(str(self.path),),
            hint="wait for that process, or stop it if it hangs; the lock goes with it",
        )


def lock_file(path: Path, timeout_s: float) -> FileLock:
    """Return a lock for `with`: taken on entry within timeout_s, else ActionFailed "locked"; let go on exit."""
    return FileLock(path, timeout_s)


def holder(path: Path) -> str | None:
    """Return who signed the lock file ("pid 71 on node-3 since 1764500000"); None when nobody did."""
    try:
        record = parse_json(path.read_bytes()[:4096])
        return f"pid {record['pid']} on {record['host']} since {record['started_unix_s']:.0f}"
    except (OSError, ValueError, KeyError, TypeError):
        return None


def flock_holder(path: Path) -> int | None:
    """Return the process of this machine that has the file locked; None where /proc/locks does not say."""
    try:
        stat = os.stat(path)
        wanted = f"{os.major(stat.st_dev):02x}:{os.minor(stat.st_dev):02x}:{stat.st_ino}"
        with open("/proc/locks", encoding="ascii") as file:
            fields = [line.split() for line in file]
    except (OSError, ValueError):
        return None
    held = (f for f in fields if len(f) >= 6 and f[1] == "FLOCK" and f[5] == wanted)
    return next((int(f[4]) for f in held if f[4].isdigit() and int(f[4]) > 0), None)


def _sign(fd: int) -> None:
    record = {"pid": os.getpid(), "host": socket.gethostname(), "started_unix_s": unix_s()}
    with suppress(OSError):  # a full disk must not keep us from working: the lock itself is held
        os.ftruncate(fd, 0)
        os.pwrite(fd, json.dumps(record).encode(), 0)
