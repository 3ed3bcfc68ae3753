"""Does the file system itself prove a file's bytes whenever they are read (fs-verity), and by which digest?

https://docs.kernel.org/filesystems/fsverity.html; ext4, f2fs and btrfs have it where it was switched on.
"""

from __future__ import annotations

import errno
import fcntl
import os
import struct
from pathlib import Path

from kboot.host.os_errors import explain_os_error

_ENABLE = 0x40806685
_MEASURE = 0xC0046686
_SHA256 = 1
_BLOCK_BYTES = 4096
_MAX_DIGEST_BYTES = 64
_WITHOUT = frozenset(
    {errno.ENODATA, errno.ENOTTY, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL, errno.EPERM, errno.EROFS}
)


def measure(path: Path) -> str | None:
    """Return the file's digest ("sha256:…") as the kernel keeps it, at no cost; None for a file without one.

    Raises:
        OSError: there is no such file.
    """
    answer = bytearray(struct.pack("=HH", 0, _MAX_DIGEST_BYTES) + bytes(_MAX_DIGEST_BYTES))
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.ioctl(fd, _MEASURE, answer)
    except OSError as exc:
        if exc.errno in _WITHOUT:
            return None
        raise
    finally:
        os.close(fd)
    algorithm, size_bytes = struct.unpack_from("=HH", answer)
    if algorithm != _SHA256:
        return None
    return f"sha256:{bytes(answer[4 : 4 + size_bytes]).hex()}"


def may_enable(path: Path) -> bool:
    """Return whether the file has no digest yet, on a file system that has such digests.

    Raises:
        OSError: there is no such file.
    """
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.ioctl(fd, _MEASURE, bytearray(struct.pack("=HH", 0, _MAX_DIGEST_BYTES) + bytes(_MAX_DIGEST_BYTES)))
    except OSError as exc:
        return exc.errno == errno.ENODATA
    finally:
        os.close(fd)
    return False


def enable(path: Path) -> bool:
    """Let the file system prove this file from now on; it can never be written to again, only removed or replaced.

    The kernel reads the file once for it. Returns False where the file system cannot.

    Raises:
        KbootError: it can, and failed.
    """
    ask = struct.pack("=IIIIQIIQ", 1, _SHA256, _BLOCK_BYTES, 0, 0, 0, 0, 0).ljust(128, b"\0")
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            fcntl.ioctl(fd, _ENABLE, ask)
        finally:
            os.close(fd)
    except OSError as exc:
        if exc.errno == errno.EEXIST:
            return True
        if exc.errno in _WITHOUT:
            return False
        raise explain_os_error(exc, "let the file system prove the file", path) from exc
    return True
