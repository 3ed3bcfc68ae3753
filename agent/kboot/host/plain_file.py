"""Is what is about to be read a file that nobody waits for in vain, and what is about to be replaced no device?"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress
from pathlib import Path

_STREAMS = "/dev/"  # /dev/stdin, and /dev/fd/N, which is how a shell hands over `<(…)`
_FILES = "/dev/shm/"  # a file system in memory, with files, links and pipes like any other


def open_plain(path: str | Path) -> int:
    """Return a descriptor of a file, open for reading; the caller closes it.

    Opening a named pipe waits until somebody writes to it, and nobody may. A stream that the caller's shell opened
    (/dev/stdin, /dev/fd/3) is read as it is.

    Raises:
        OSError: not readable; EISDIR for a folder, EINVAL for a pipe, a socket or a device.
    """
    if _may_be_stream(path):
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    mode = os.fstat(fd).st_mode
    if stat.S_ISREG(mode):
        return fd
    os.close(fd)
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    raise OSError(errno.EINVAL, "is not a file", str(path))


def replace(temp: Path | str, target: Path | str) -> None:
    """Give a file another name; what has that name is replaced, but no device and no stream in /dev.

    Raises:
        OSError: errno EINVAL for a device: "/dev/null" as the file to write to is no wish to lose it.
    """
    with suppress(FileNotFoundError):
        mode = os.lstat(target).st_mode
        is_stream = stat.S_ISLNK(mode) and _may_be_stream(target)
        if stat.S_ISCHR(mode) or stat.S_ISBLK(mode) or is_stream:
            raise OSError(errno.EINVAL, "it is a device, and no file", str(target))
    os.replace(temp, target)


def _may_be_stream(path: str | Path) -> bool:
    return str(path).startswith(_STREAMS) and not str(path).startswith(_FILES)
