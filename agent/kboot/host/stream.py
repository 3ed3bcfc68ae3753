"""How is a file of any size written so that its name means a whole one, and read without holding it?"""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from kboot.host.files import fsync_dir
from kboot.host.os_errors import explained
from kboot.host.plain_file import replace


class OutFile:
    """A file that gets its name on commit(), durable; without it nothing is left behind. A context manager."""

    def __init__(self, target: Path, mode: int = 0o644) -> None:
        self._target = target
        self._mode = mode
        self._temp = target.parent / f".kboot-{secrets.token_hex(6)}.tmp"
        self._fd = -1

    def __enter__(self) -> Self:
        with explained("write the file", self._target):
            self._fd = os.open(self._temp, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        return self

    def write(self, data: bytes | memoryview) -> int:
        """Write all of it."""
        left = memoryview(data)
        with explained("write the file", self._target):
            while left:
                left = left[os.write(self._fd, left) :]
        return len(data)

    def flush(self) -> None:
        """Do nothing: nothing is held back."""

    def commit(self) -> int:
        """Make it durable and give it its name; return its size."""
        with explained("write the file", self._target):
            os.fchmod(self._fd, self._mode)
            os.fsync(self._fd)
            size_bytes = os.fstat(self._fd).st_size
            replace(self._temp, self._target)
        fsync_dir(self._target.parent)
        return size_bytes

    def __exit__(self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None) -> None:
        os.close(self._fd)
        with suppress(FileNotFoundError):
            os.unlink(self._temp)


class StandardOutput:
    """The same interface over this process's standard output, where bytes cannot be taken back. A context manager."""

    def __init__(self) -> None:
        self._size_bytes = 0

    def __enter__(self) -> Self:
        return self

    def write(self, data: bytes | memoryview) -> int:
        """Write all of it."""
        left = memoryview(data)
        with explained("write", "standard output"):
            while left:
                left = left[os.write(1, left) :]
        self._size_bytes += len(data)
        return len(data)

    def flush(self) -> None:
        """Do nothing: nothing is held back."""

    def commit(self) -> int:
        """Make durable what can be, a file that the shell opened; return how much was written."""
        with suppress(OSError):  # a pipe
            os.fsync(1)
        return self._size_bytes

    def __exit__(self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None) -> None:
        return None


def standard_input() -> IO[bytes]:
    """Return this process's standard input for one pass; closing it leaves it open for others."""
    return open(0, "rb", buffering=0, closefd=False)


def open_to_read(path: Path) -> IO[bytes]:
    """Open a file for one pass from its beginning; a named pipe is as good."""
    with explained("open the file", path):
        file = open(path, "rb", buffering=0)  # noqa: SIM115  (the caller's `with` closes it)
        with suppress(OSError):
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_SEQUENTIAL)
        return file
