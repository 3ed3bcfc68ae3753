"""Does the first read of a block take longer than the second, as on a volume that is still filled from a snapshot?"""

from __future__ import annotations

import errno
import mmap
import os
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from kboot.host.clock import monotonic_s

BLOCK_BYTES = 64 << 10
_STEP_BYTES = 512 << 20  # snapshots come in pieces of half a MiB and more: far enough from each other


def first_reads(files: Sequence[Path], reads: int, budget_s: float) -> tuple[int, float, float] | None:
    """Return (reads, median seconds of the first, of the second) of single blocks all over the files, from the disk.

    Holes are left out. None where the file system does not read past the page cache, or nothing was read in time.

    Raises:
        OSError: a file is gone, or the disk cannot read it.
    """
    buffer = mmap.mmap(-1, BLOCK_BYTES)  # aligned to a page, as such reads want it
    deadline_s = monotonic_s() + budget_s
    times: list[tuple[float, float]] = []
    for path, offset in _places(files):
        if len(times) == reads or monotonic_s() >= deadline_s:
            break
        try:
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECT)
        except OSError:  # tmpfs and others
            return None
        try:
            start = _data_from(fd, offset)
            if start is not None:
                times.append(_twice(fd, start, buffer))
        finally:
            os.close(fd)
    if not times:
        return None
    return len(times), median(first for first, _ in times), median(second for _, second in times)


def _data_from(fd: int, offset: int) -> int | None:
    """Return the first page of this step that is no hole: no disk is asked for one. None where all of it is one."""
    try:
        start = os.lseek(fd, offset, os.SEEK_DATA)
    except OSError as exc:
        if exc.errno == errno.ENXIO:
            return None
        raise
    return start // mmap.PAGESIZE * mmap.PAGESIZE if start < offset + _STEP_BYTES else None


def _twice(fd: int, offset: int, buffer: mmap.mmap) -> tuple[float, float]:
    started_s = monotonic_s()
    os.preadv(fd, [buffer], offset)
    between_s = monotonic_s()
    os.preadv(fd, [buffer], offset)
    return between_s - started_s, monotonic_s() - between_s


def _places(files: Sequence[Path]) -> list[tuple[Path, int]]:
    """Return blocks so that every file takes part before one takes part twice, none of them at a file's beginning."""
    found = []
    for path in files:
        last = os.stat(path).st_size // BLOCK_BYTES - 1
        starts = range(_STEP_BYTES // 2, max(0, last) * BLOCK_BYTES, _STEP_BYTES)
        places = [*starts] or [max(0, last // 2) * BLOCK_BYTES]
        found += [(number, path, offset) for number, offset in enumerate(places)]
    return [(path, offset) for _, path, offset in sorted(found, key=lambda place: (place[0], str(place[1])))]
