"""Is what is about to be read a file, and not something that keeps its reader waiting for ever?"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

_STREAMS = "/dev/"  # /dev/stdin, and /dev/fd/N, which is how a shell hands over `<(…)`


def open_plain(path: str | Path) -> int:
    """Return a descriptor of a file, open for reading; the caller closes it.

    Opening a named pipe waits until somebody writes to it, and nobody may. A stream that the caller's shell opened
    (/dev/stdin, /dev/fd/3) is read as it is.

    Raises:
        OSError: not readable; EISDIR for a folder, EINVAL for a pipe, a socket or a device.
    """
    if str(path).startswith(_STREAMS):
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    mode = os.fstat(fd).st_mode
    if stat.S_ISREG(mode):
        return fd
    os.close(fd)
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    raise OSError(errno.EINVAL, "is not a file", str(path))
