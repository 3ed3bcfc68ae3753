"""How do the bytes of a large file reach the disk while more of them arrive?"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Self

from kboot.host.os_errors import explain_os_error, explained

_BOOT_ID = "/proc/sys/kernel/random/boot_id"
_KEEP_SIZE = 1  # FALLOC_FL_KEEP_SIZE: blocks are taken, the length still says how far bytes were written
_WAIT_BEFORE, _WRITE, _WAIT_AFTER = 1, 2, 4  # SYNC_FILE_RANGE_*
_MODE = 0o644
_COPY_BYTES = 1 << 20
_IN_MEMORY = frozenset({0x01021994, 0x858458F6})  # tmpfs, ramfs
_STATFS_BYTES = 256  # more than any layout of it; the type comes first
_NOT_HERE = frozenset({errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL, errno.ESPIPE, errno.EPERM})

_libc = ctypes.CDLL(None, use_errno=True)
_off = ctypes.c_int64


def boot_id() -> str:
    """Return what tells this run of the kernel from every other; empty where /proc does not say."""
    try:
        with open(_BOOT_ID, encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return ""


class BlockFile:
    """A file that several threads write at once, each at its own offset. Errors name the path.

    Threads may call everything but close() together. inode: the number that a copy of the file does not share.
    """

    def __init__(self, path: Path) -> None:
        """Open the file for reading and writing; it is made when it is missing.

        Others may read it, whatever the umask: the engine runs as another user. Its folder says who gets so far.
        """
        self.path = path
        with explained("open the file", path):
            self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, _MODE)
            opened = os.fstat(self._fd)
        if opened.st_mode & _MODE != _MODE:
            with suppress(OSError):  # not this user's, or a file system without modes
                os.fchmod(self._fd, _MODE)
        self._dev, self.inode = opened.st_dev, opened.st_ino

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Close it; nothing when closed already. Its lock goes with it, also where the file system fails at that."""
        if self._fd >= 0:
            fd, self._fd = self._fd, -1
            with suppress(OSError):  # what was written has been synced, or is known not to be
                os.close(fd)

    def try_lock(self) -> bool:
        """Keep other processes from it until it is closed; False when one of them has it."""
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as exc:
            if exc.errno in (errno.EWOULDBLOCK, errno.EACCES):
                return False
            raise explain_os_error(exc, "lock the file", self.path) from exc
        return True

    @property
    def is_named(self) -> bool:
        """Whether the path still leads to this file: another process may have renamed or removed it since."""
        try:
            found = os.stat(self.path, follow_symlinks=False)
        except OSError:
            return False
        return (found.st_dev, found.st_ino) == (self._dev, self.inode)

    @property
    def size_bytes(self) -> int:
        """How far bytes were written."""
        return os.fstat(self._fd).st_size

    @property
    def taken_bytes(self) -> int:
        """Disk blocks it has, reserved ones included."""
        return os.fstat(self._fd).st_blocks * 512

    @property
    def free_bytes(self) -> int | None:
        """What this user may still take of the file system it is on; None where that does not say."""
        stat = os.fstatvfs(self._fd)
        return stat.f_bavail * stat.f_frsize if stat.f_blocks else None

    @property
    def is_in_memory(self) -> bool:
        """Whether its blocks are pages of memory, which are made one by one where they are reserved."""
        found = ctypes.create_string_buffer(_STATFS_BYTES)
        if _libc.fstatfs(self._fd, found):
            return False
        return int.from_bytes(found.raw[: ctypes.sizeof(ctypes.c_long)], sys.byteorder) in _IN_MEMORY

    def data_ranges(self) -> Iterator[tuple[int, int]]:
        """Yield the stretches [start, end) that are no holes; all of it where the file system does not tell."""
        end, size_bytes = 0, self.size_bytes
        while end < size_bytes:
            try:
                start = os.lseek(self._fd, end, os.SEEK_DATA)
                end = os.lseek(self._fd, start, os.SEEK_HOLE)
            except OSError as exc:
                if exc.errno == errno.ENXIO:  # nothing but a hole up to the end
                    return
                raise explain_os_error(exc, "look for holes in the file", self.path) from exc
            yield start, end

    def reserve(self, size_bytes: int) -> bool:
        """Take the disk blocks for this many bytes; the length does not change.

        Returns False where the file system cannot do that.

        Raises:
            DoesNotFit: it has not that much room, or the quota has not.
        """
        if size_bytes == 0 or _libc.fallocate(self._fd, _KEEP_SIZE, _off(0), _off(size_bytes)) == 0:
            return True
        number = ctypes.get_errno()
        if number in _NOT_HERE:
            return False
        raise explain_os_error(OSError(number, os.strerror(number)), f"reserve {size_bytes} bytes", self.path)

    def write(self, data: memoryview, offset: int) -> None:
        """Write all of it at the offset, into the page cache."""
        try:
            while data:
                n = os.pwrite(self._fd, data, offset)
                data, offset = data[n:], offset + n
        except OSError as exc:
            raise explain_os_error(exc, "write the file", self.path) from exc

    def read_into(self, buffer: memoryview, offset: int) -> int:
        """Fill the buffer from the offset; fewer bytes only at the end of the file."""
        done = 0
        try:
            while done < len(buffer) and (n := os.preadv(self._fd, [buffer[done:]], offset + done)):
                done += n
        except OSError as exc:
            raise explain_os_error(exc, "read the file", self.path) from exc
        return done

    def copy_from(self, source: Path, offset: int, size_bytes: int) -> int:
        """Copy a range of another file to the same place here; return how much of it that file has and gives.

        The file system shares the blocks where it can. What the disk cannot read is not copied.
        """
        done = 0
        try:
            fd = os.open(source, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return 0
        try:
            while done < size_bytes and (n := _copy(fd, self._fd, offset + done, size_bytes - done)):
                done += n
        except OSError as exc:
            if exc.errno not in (errno.EIO, errno.ESTALE):
                raise explain_os_error(exc, "copy the file", self.path) from exc
        finally:
            os.close(fd)
        return done

    def push(self, offset: int, size_bytes: int) -> None:
        """Let the disk begin with a range that was written; does not wait, and does not make it durable."""
        _libc.sync_file_range(self._fd, _off(offset), _off(size_bytes), _WRITE)

    def settle(self, offset: int, size_bytes: int) -> None:
        """Wait until the disk took a range, so that unwritten pages stay few; does not make it durable.

        Errors are left to sync(), which reports every one of this file.
        """
        _libc.sync_file_range(self._fd, _off(offset), _off(size_bytes), _WAIT_BEFORE | _WRITE | _WAIT_AFTER)

    def sync(self) -> None:
        """Make every byte written so far durable."""
        with explained("sync the file", self.path):
            os.fdatasync(self._fd)

    def truncate(self, size_bytes: int) -> None:
        """Give it this length; blocks beyond it are given back, also where the length is so already."""
        with explained("truncate the file", self.path):
            os.ftruncate(self._fd, size_bytes)


def _copy(source: int, target: int, offset: int, size_bytes: int) -> int:
    try:
        return os.copy_file_range(source, target, size_bytes, offset, offset)
    except OSError as exc:
        if exc.errno not in _NOT_HERE | {errno.EXDEV}:
            raise
    data = os.pread(source, min(size_bytes, _COPY_BYTES), offset)
    return os.pwrite(target, data, offset) if data else 0


def taken_bytes(path: Path) -> int:
    """Return the disk blocks of a file, reserved ones included; 0 where there is none."""
    try:
        return os.stat(path, follow_symlinks=False).st_blocks * 512
    except OSError:
        return 0
