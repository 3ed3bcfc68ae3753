"""How fast do these files come from the disk: in large reads, and page by page as a mapping faults them in?"""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Lock

from kboot.host.clock import monotonic_s
from kboot.host.pagecache import Reading, new_buffer, resident_in

_BUFFER_BYTES = 8 << 20
_STRETCH_BYTES = 64 << 20
_TRIED = 16


def read_past_cache(files: Sequence[Path], streams: int, budget_s: float) -> tuple[int, float]:
    """Return (bytes, seconds) of reading stretches all over the files, from the disk and not from memory.

    Stops at the budget or when all is read; what is in the page cache stays as it is.

    Raises:
        OSError: a file is gone, or the disk cannot read it.
    """
    stretches = _spread(files)
    lock = Lock()
    started_s = monotonic_s()

    def work() -> int:
        buffer, done = new_buffer(_BUFFER_BYTES), 0
        while monotonic_s() - started_s < budget_s:
            with lock:
                place = next(stretches, None)
            if place is None:
                break
            done += _read(*place, buffer, started_s + budget_s)
        return done

    with ThreadPoolExecutor(streams, thread_name_prefix="read-rate") as pool:
        total = sum(f.result() for f in [pool.submit(work) for _ in range(streams)])
    return total, monotonic_s() - started_s


def fault_in(files: Iterable[Path], budget_s: float) -> tuple[int, float] | None:
    """Return (bytes, seconds) of touching every page of a mapped stretch that is not in memory; None without one.

    Raises:
        OSError: a file is gone, or the disk cannot read it.
    """
    for number, (path, start, end) in enumerate(_spread(tuple(files))):
        if number >= _TRIED:
            break
        if end - start >= mmap.PAGESIZE and resident_in(path, [(start, end)]) == 0:
            return _touch(path, start, end, budget_s)
    return None


def _read(path: Path, start: int, end: int, buffer: memoryview, deadline_s: float) -> int:
    done = 0
    with Reading(path, buffer, start, end, past_cache=True) as reading:
        for piece in reading:
            done += len(piece)
            if monotonic_s() >= deadline_s:
                break
    return done


def _touch(path: Path, start: int, end: int, budget_s: float) -> tuple[int, float]:
    with open(path, "rb", buffering=0) as file:
        mapped = mmap.mmap(file.fileno(), end - start, prot=mmap.PROT_READ, offset=start)
    started_s = monotonic_s()
    done, checked = 0, 0
    with mapped:
        for offset in range(0, end - start, mmap.PAGESIZE):
            checked ^= mapped[offset]
            done = min(offset + mmap.PAGESIZE, end - start)
            if monotonic_s() - started_s >= budget_s:
                break
    return done, monotonic_s() - started_s


def _spread(files: Sequence[Path]) -> Iterator[tuple[Path, int, int]]:
    """Yield stretches so that all files take part from the start: the first of each, then the second of each…"""
    sizes = [(path, os.stat(path).st_size) for path in files]
    for start in range(0, max((size for _, size in sizes), default=0), _STRETCH_BYTES):
        yield from ((path, start, min(start + _STRETCH_BYTES, size)) for path, size in sizes if size > start)
