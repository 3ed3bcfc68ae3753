"""Is the checkpoint in the page cache before the engine asks for it? Reads what is not, and measures what stayed."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from kboot.apply.outcome import Effect, carry_out, skipped
from kboot.checkpoint import Listing, RemoteFile
from kboot.checks.disk_rate import SLOW_FAULTS_BYTES_S
from kboot.events import Emit, FileDone, FileProgress, Notice
from kboot.host.clock import monotonic_s
from kboot.host.os_errors import explained
from kboot.host.pagecache import Reading, cold_ranges, new_buffer, resident_bytes, resident_in
from kboot.host.read_rate import fault_in
from kboot.plan.types import WarmFile
from kboot.quantities import show_bytes, show_roughly
from kboot.report.types import Outcome
from kboot.store.store import Store

THREADS = 4
"""Files read at once: one reader does not fill a fast disk, more than a few do not help one."""

STOPPED = "kboot was stopped"
"""Why a file was left when the stop event was set before its turn."""

_BUFFER_BYTES = 4 << 20
_WINDOW_BYTES = 8 << 20
_KEPT_FRACTION = 0.8
_PROGRESS_EVERY_S = 0.5
_TRY_S = 0.5  # on what stays cold, to see what mapping it gives
_SHORTEST_S = 1e-3


def warm_files(
    actions: Sequence[WarmFile],
    listing: Listing,
    store: Store,
    budget_bytes: int,
    emit: Emit,
    stop: threading.Event,
    threads: int = THREADS,
) -> tuple[Outcome, ...]:
    """Read what is not in the page cache, in the order of the actions, until budget_bytes were read.

    Residency is measured before and after each file and stands in its outcome, whose bytes are those that were missing,
    as the plan counts them; whole windows are read for them. When a file does not stay, memory (or
    a cgroup's limit) cannot hold more and the rest is left alone: reading on would evict what is there. What an engine
    will get of that rest by mapping it is tried on a little of it, and told where it is far less than the disk gives.
    """
    job = _Job(listing, store, budget_bytes, emit, stop)
    started_s = monotonic_s()
    with ThreadPoolExecutor(threads, thread_name_prefix="warm") as pool:
        outcomes = tuple(pool.map(job.warm, actions))
    left = [a.file for a, o in zip(actions, outcomes) if o.status == "skipped" and o.reason != STOPPED]
    read_bytes = sum(o.size_bytes for o in outcomes)
    if left and read_bytes and not stop.is_set():
        job.try_faults(left, read_bytes / max(_SHORTEST_S, monotonic_s() - started_s))
    return outcomes


def slow_faults(left_bytes: int, read_rate: float, fault_rate: float) -> Notice | None:
    """Return what should be known where mapped pages come far slower than large reads; None where they do not.

    left_bytes: not in memory. Rates in bytes a second.
    """
    if fault_rate >= min(SLOW_FAULTS_BYTES_S, read_rate / 4):
        return None
    return Notice(
        "warm.slow_faults",
        f"{show_bytes(left_bytes)} stay cold, and mapped pages come at {show_bytes(fault_rate)}/s where large "
        f"reads give {show_bytes(read_rate)}/s: an engine that maps its files takes "
        f"{show_roughly(left_bytes / max(1.0, fault_rate))} for them. Let it read ahead (vLLM: "
        "--safetensors-load-strategy prefetch), give the page cache more memory, or keep the checkpoint on a local "
        "disk",
    )


def not_kept(path: str, read_bytes: int, kept_bytes: int) -> Notice:
    """Return what should be known where a file that was read is not in the page cache afterwards."""
    why = "memory or a cgroup limit does not hold more"
    if not kept_bytes:
        why = (
            "memory or a cgroup limit holds nothing, or this file system has a cache of its own (ZFS, GPFS, some FUSE)"
        )
    seen = f"{show_bytes(read_bytes)} were read, {show_bytes(kept_bytes)} of them are in the page cache now"
    return Notice("warm.not_kept", f"{path}: {seen}: {why}, the rest is left cold")


class _Job:
    def __init__(self, listing: Listing, store: Store, budget_bytes: int, emit: Emit, stop: threading.Event) -> None:
        self._repo = listing.repo
        self._store = store
        self._left_bytes = budget_bytes
        self._emit = emit
        self._stop = stop
        self._lock = threading.Lock()
        self._full = False

    def warm(self, action: WarmFile) -> Outcome:
        if self._stop.is_set():
            return skipped("warm", action, STOPPED)
        if self._full:
            return skipped("warm", action, "a file read before it did not stay in the page cache")
        if self._left_bytes <= 0:
            return skipped("warm", action, "the memory for warming is used up")
        return carry_out("warm", action, lambda: self._warm(action))

    def _warm(self, action: WarmFile) -> Effect:
        file, loaded = action.file, action.ranges
        blob = self._store.content_path(self._repo, file)
        started_s = monotonic_s()
        with explained(f"warm {file.path}", blob):
            before = resident_in(blob, loaded) if loaded else resident_bytes(blob)
            ranges = self._claim(cold_ranges(blob, _WINDOW_BYTES, loaded))
            there = resident_in(blob, ranges) or 0
            read = self._read(blob, file, ranges)
            after = resident_in(blob, loaded) if loaded else resident_bytes(blob)
            self._judge(file, ranges, read, resident_in(blob, ranges))
        size = action.size_bytes
        self._emit(FileDone("warm", file.path, size, monotonic_s() - started_s, "this disk", before or 0))
        said = _say(before, size), _say(after, size)
        missing = max(0, min(read, sum(end - start for start, end in ranges) - there))
        return Effect("done" if read else "unchanged", *said, size_bytes=missing, source="this disk")

    def try_faults(self, left: Sequence[RemoteFile], read_rate: float) -> None:
        """Map a little of what stays cold, and tell where that is slow. read_rate: bytes a second of large reads."""
        try:
            tried = fault_in([self._store.content_path(self._repo, file) for file in left], _TRY_S)
        except OSError:  # gone, or the disk cannot read it: the engine will say so
            return
        if tried is not None:
            touched, seconds = tried
            notice = slow_faults(sum(f.size_bytes for f in left), read_rate, touched / max(_SHORTEST_S, seconds))
            if notice is not None:
                self._emit(notice)

    def _claim(self, ranges: Sequence[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
        """Take the ranges' bytes from the budget, in order, as far as it goes."""
        claimed = []
        with self._lock:
            for start, end in ranges:
                end = min(end, start + self._left_bytes)
                if start < end:
                    claimed.append((start, end))
                    self._left_bytes -= end - start
        return tuple(claimed)

    def _read(self, blob: Path, file: RemoteFile, ranges: Sequence[tuple[int, int]]) -> int:
        buffer = new_buffer(_BUFFER_BYTES)
        total_bytes, read, next_s = sum(end - start for start, end in ranges), 0, monotonic_s() + _PROGRESS_EVERY_S
        for start, end in _joined(ranges):
            with Reading(blob, buffer, start, end) as reading:
                for data in reading:
                    read += len(data)
                    if self._stop.is_set() or self._full:
                        return read
                    if monotonic_s() >= next_s:
                        next_s = monotonic_s() + _PROGRESS_EVERY_S
                        self._emit(FileProgress("warm", file.path, read, total_bytes))
        return read

    def _judge(self, file: RemoteFile, ranges: Sequence[tuple[int, int]], read: int, kept: int | None) -> None:
        """Look whether what was read is there now; part of it may have been there before."""
        whole = read == sum(end - start for start, end in ranges)
        if kept is None or self._full or not whole or kept >= read * _KEPT_FRACTION:
            return
        self._full = True
        self._emit(not_kept(file.path, read, kept))


def _joined(ranges: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    joined: list[tuple[int, int]] = []
    for start, end in ranges:
        if joined and joined[-1][1] == start:
            joined[-1] = (joined[-1][0], end)
        else:
            joined.append((start, end))
    return joined


def _say(resident: int | None, size_bytes: int) -> str:
    return "not measured" if resident is None else f"{resident} of {size_bytes} bytes in the page cache"
