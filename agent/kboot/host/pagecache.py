"""How much of a file is in the page cache, and how is it read so that it ends up there?"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import mmap
import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from kboot.host.files import Identity, identity_of
from kboot.host.mapped import WINDOW_BYTES, Windows
from kboot.host.plain_file import open_plain

_SYS_CACHESTAT = 451  # the same on x86_64 and aarch64, Linux 6.5 and newer
_PAGE_BYTES = os.sysconf("SC_PAGESIZE")
_AHEAD_BYTES = 16 << 20
_AHEAD_STEP_BYTES = 1 << 20  # a larger WILLNEED is cut to one read-ahead window (measured: 8 of 134 MB were read)
_WINDOW_BYTES = 1 << 20
_BACKING = Path("/sys/class/bdi")
_MINCORE_STEP_BYTES = 1 << 30
_HUGE_BYTES = 2 << 20

_libc = ctypes.CDLL(None, use_errno=True)


class _Range(ctypes.Structure):
    _fields_ = (("off", ctypes.c_uint64), ("len", ctypes.c_uint64))


class _Stat(ctypes.Structure):
    _fields_ = tuple((name, ctypes.c_uint64) for name in ("cache", "dirty", "writeback", "evicted", "recently_evicted"))


def resident_bytes(path: Path) -> int | None:
    """Return how many bytes of the file are in the page cache; None where this kernel does not say.

    Asked of cachestat, on kernels before 6.5 of mincore; nothing is read and nothing evicted.

    Raises:
        OSError: there is no such file.
    """
    with os.fdopen(open_plain(path), "rb", buffering=0) as file:
        return _resident(file.fileno(), 0, os.fstat(file.fileno()).st_size)


def resident_in(path: Path, ranges: Sequence[tuple[int, int]]) -> int | None:
    """Return how many bytes of [start, end) ranges, each from a page's start, are in the page cache; None as above.

    Raises:
        OSError: there is no such file.
    """
    with os.fdopen(open_plain(path), "rb", buffering=0) as file:
        found = [_resident(file.fileno(), start, end - start) for start, end in ranges]
    known = [n for n in found if n is not None]
    return sum(known) if len(known) == len(found) else None


def cold_ranges(path: Path, window_bytes: int, within: Sequence[tuple[int, int]] = ()) -> tuple[tuple[int, int], ...]:
    """Return the [start, end) stretches, in whole windows, that are not fully in the page cache.

    within: stretches to look at, each from a page's start; empty = the whole file. Where residency cannot be measured,
    everything is cold.

    Raises:
        OSError: there is no such file.
    """
    with os.fdopen(open_plain(path), "rb", buffering=0) as file:
        fd, size = file.fileno(), os.fstat(file.fileno()).st_size
        windows = (
            (start, min(start + window_bytes, end, size))
            for first, end in within or ((0, size),)
            for start in range(first, min(end, size), window_bytes)
        )
        return tuple((a, b) for a, b in windows if (_resident(fd, a, b - a) or 0) < b - a)


class Reading:
    """One file being read in order into one buffer, with the disk kept busy ahead of whoever works on the bytes.

    A context manager. It never evicts what it read: reading is also how a file gets warm. Except past the cache: then
    the bytes come from the disk, whatever of them is in memory, and the page cache is as it was.

    On a disk of this machine the kernel's own read-ahead keeps it busy, with several files at once where its window is
    small. What it reads comes in large folios, which the engine maps with a sixth of the work (`must_ask` has figures).

    buffer: page-aligned where it is read past the cache.

    Raises:
        OSError: there is no such file, or the disk cannot read it.
    """

    def __init__(
        self, path: Path, buffer: memoryview, start: int = 0, end: int | None = None, *, past_cache: bool = False
    ) -> None:
        self._file = os.fdopen(open_plain(path), "rb", buffering=0)  # closed by __exit__
        self._past_cache = past_cache
        self._direct = past_cache and _set_direct(self._file.fileno())
        if past_cache and not self._direct:  # what the kernel read ahead would look as if it had been there
            os.posix_fadvise(self._file.fileno(), 0, 0, os.POSIX_FADV_RANDOM)
        self._windows = None if past_cache else Windows(self._file.fileno(), _resident)
        self._buffer = buffer
        self._start = start
        self._end = os.fstat(self._file.fileno()).st_size if end is None else end

    def __enter__(self) -> Reading:
        return self

    def __exit__(self, *_: object) -> None:
        if self._windows:
            self._windows.close()
        self._file.close()

    def identity(self) -> Identity:
        """Return the identity of the open file, whatever its name leads to by now."""
        return identity_of(os.fstat(self._file.fileno()))

    def __iter__(self) -> Iterator[memoryview]:
        """Yield the bytes in order, valid until the next are asked for; ends early where the file does.

        What is in memory already is not copied into the buffer where it can be mapped.
        """
        fd, offset, ahead = self._file.fileno(), self._start, self._start
        asks = not self._past_cache and must_ask(os.fstat(fd).st_dev) and not self._is_warm()
        while offset < self._end:
            if self._windows and (window := self._windows.at(offset, self._end)):
                yield from _bytes_of(window)
                offset += WINDOW_BYTES
                continue
            if asks:
                ahead = _ask_ahead(fd, max(ahead, offset), min(offset + _AHEAD_BYTES, self._end))
            count = self._read(fd, offset)
            if not count:
                return
            offset += count
            yield self._buffer[:count]

    def _is_warm(self) -> bool:
        """Return whether all of it is in memory: then asking ahead would cost 3 % of the time it takes to hash it."""
        start = self._start // _PAGE_BYTES * _PAGE_BYTES
        try:
            return (_resident(self._file.fileno(), start, self._end - start) or 0) >= self._end - start
        except OSError:
            return False

    def _read(self, fd: int, offset: int) -> int:
        wanted = min(len(self._buffer), self._end - offset)
        if self._direct:  # whole blocks only; at the end of the file fewer bytes come
            return min(os.preadv(fd, [self._buffer], offset), wanted)
        cold = self._past_cache and not _resident(fd, offset, wanted)
        count = os.preadv(fd, [self._buffer[:wanted]], offset)
        if cold:
            os.posix_fadvise(fd, offset, count, os.POSIX_FADV_DONTNEED)
        return count


def _bytes_of(window: mmap.mmap) -> Iterator[memoryview]:
    data = memoryview(window)
    try:
        yield data
    finally:
        with suppress(BufferError):  # the traceback of an error refers to a part of it: it goes with the error
            data.release()
            window.close()


def new_buffer(size_bytes: int) -> memoryview:
    """Return a page-aligned buffer; a large one in huge pages where the kernel has them, which makes copies cheaper."""
    area = mmap.mmap(-1, size_bytes)
    if size_bytes >= _HUGE_BYTES:
        with suppress(OSError, AttributeError):  # a kernel or an interpreter without them
            area.madvise(mmap.MADV_HUGEPAGE)
    return memoryview(area)


def must_ask(dev: int, backing: Path = _BACKING) -> bool:
    """Return whether the kernel has to be asked for what comes next, for files of this device.

    Only where a network or a program answers and the window of the kernel's own read-ahead is known to be small: there
    each window costs a round trip. Pages that are asked for come one by one, and stay so: on Zen 5 with Linux 6.18 and
    ext4, reading and hashing cold files took 0.76 CPU seconds for a GB with asking and 0.55 without, mapping them
    afterwards 0.08 and 0.01.
    """
    if os.major(dev):
        return False
    try:
        window_kib = int((backing / f"0:{os.minor(dev)}" / "read_ahead_kb").read_text("ascii"))
    except (OSError, ValueError):  # a file system over disks of its own, or one in memory
        return False
    return window_kib << 10 < _WINDOW_BYTES


def _set_direct(fd: int) -> bool:
    try:
        fcntl.fcntl(fd, fcntl.F_SETFL, fcntl.fcntl(fd, fcntl.F_GETFL) | os.O_DIRECT)
    except OSError:  # a file system in memory, or one that cannot
        return False
    return True


def _ask_ahead(fd: int, start: int, end: int) -> int:
    while start < end:
        os.posix_fadvise(fd, start, min(_AHEAD_STEP_BYTES, end - start), os.POSIX_FADV_WILLNEED)
        start += _AHEAD_STEP_BYTES
    return start


def _resident(fd: int, start: int, length: int) -> int | None:
    """Return the resident bytes of a page-aligned stretch; its last page counts as far as the stretch goes."""
    if length == 0:
        return 0
    found = _cachestat(fd, start, length)
    if found is None:
        found = _mincore(fd, start, length)
    elif found == 0 and not os.major(os.fstat(fd).st_dev):
        # On overlayfs cachestat looks at an inode that has no pages (seen on 6.18); a mapping is of the real one.
        found = _mincore(fd, start, length) or 0
    return None if found is None else min(found * _PAGE_BYTES, length)


def _cachestat(fd: int, start: int, length: int) -> int | None:
    answer = _Stat()
    failed = _libc.syscall(
        ctypes.c_long(_SYS_CACHESTAT), fd, ctypes.byref(_Range(start, length)), ctypes.byref(answer), 0
    )
    if not failed:
        return int(answer.cache)
    if ctypes.get_errno() in (errno.ENOSYS, errno.EPERM, errno.EOPNOTSUPP):
        return None  # an older kernel, a container's filter, or a file system without a page cache
    raise OSError(ctypes.get_errno(), "cachestat: " + os.strerror(ctypes.get_errno()))


def _mincore(fd: int, start: int, length: int) -> int | None:
    stat = os.fstat(fd)
    if os.geteuid() not in (0, stat.st_uid):
        return None  # the kernel calls every page of another's file resident
    return sum(
        _mincore_step(fd, at, min(_MINCORE_STEP_BYTES, start + length - at))
        for at in range(start, start + length, _MINCORE_STEP_BYTES)
    )


def _mincore_step(fd: int, start: int, length: int) -> int:
    # A private writable mapping, since ctypes takes the address of writable buffers only; nothing is written.
    with mmap.mmap(fd, length, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ | mmap.PROT_WRITE, offset=start) as area:
        vector = (ctypes.c_ubyte * (-(-length // _PAGE_BYTES)))()
        anchor = ctypes.c_char.from_buffer(area)
        try:
            failed = _libc.mincore(ctypes.c_void_p(ctypes.addressof(anchor)), ctypes.c_size_t(length), vector)
        finally:
            del anchor  # else the mapping cannot be closed
    if failed:
        raise OSError(ctypes.get_errno(), "mincore: " + os.strerror(ctypes.get_errno()))
    return sum(byte & 1 for byte in vector)
