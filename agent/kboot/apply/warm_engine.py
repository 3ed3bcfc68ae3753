"""Are the engine's own files in the page cache before its interpreters ask for them, one page after the other?"""

from __future__ import annotations

import threading
import zlib
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

from kboot.apply.outcome import Effect, carry_out, skipped
from kboot.apply.warm import STOPPED, THREADS
from kboot.errors import KbootError
from kboot.events import Emit, Notice
from kboot.host.clock import unix_s
from kboot.host.engine_python import list_package
from kboot.host.files import atomic_write, exists, make_dirs, read_small
from kboot.host.pagecache import Reading, new_buffer, resident_bytes
from kboot.host.processes import OUTPUT_LIMIT_BYTES
from kboot.plan.types import PhaseName, WarmEngine
from kboot.quantities import show_bytes
from kboot.report.types import Outcome
from kboot.store.cache_files import COMPLETE

TIMEOUT_S = 60.0

KEPT = "files"
"""In the folder of the engine's compiled Python: the names of its files. Another set of packages has another folder."""

_LIST_BYTES = 64 << 20
_BUFFER_BYTES = 1 << 20


def warm_engine(
    phase: PhaseName, action: WarmEngine, environ: Mapping[str, str], emit: Emit, stop: threading.Event
) -> Outcome:
    """Read what is cold of them, several at once, up to the action's limit; what cannot be read is left."""
    if stop.is_set():
        return skipped(phase, action, STOPPED)
    return carry_out(phase, action, lambda: _warm(action, environ, emit, stop))


def _warm(action: WarmEngine, environ: Mapping[str, str], emit: Emit, stop: threading.Event) -> Effect:
    folder = Path(action.folder)
    names = _unpacked(_kept(folder / KEPT))
    if names is None:
        try:
            listed = list_package(action.python, action.package, action.folder, TIMEOUT_S, environ)
        except OSError as exc:
            return _left(f"{action.python}: {exc.strerror}", emit)
        if listed.timed_out or listed.status:
            said = listed.stderr.decode(errors="replace").strip().rpartition("\n")[2]
            return _left("not listed in time" if listed.timed_out else said[:200] or f"status {listed.status}", emit)
        names = _unpacked(listed.stdout)
        if names is None:
            return _left("its list of files is not whole", emit)
        if exists(folder / COMPLETE):  # else more will be compiled
            with suppress(KbootError):  # the next boot asks again
                atomic_write(folder / KEPT, listed.stdout)
    paths = [Path(name) for name in names if name]
    reading = _Reading(action.limit_bytes, stop)
    reading.all(paths)
    if not stop.is_set():
        marker = Path(action.marker)
        make_dirs(marker.parent)
        atomic_write(marker, f"{unix_s():.3f}\n".encode())
    said = f"{len(paths)} files, {show_bytes(reading.read_bytes)} of them read"
    return Effect("done" if reading.read_bytes else "unchanged", after=said, size_bytes=reading.read_bytes)


def _kept(path: Path) -> bytes:
    try:
        return read_small(path, OUTPUT_LIMIT_BYTES)
    except OSError:  # the first time, or from a disk that cannot read it
        return b""


def _unpacked(listed: bytes) -> list[str] | None:
    """Return the names; None where some were cut off."""
    packed = zlib.decompressobj()
    try:
        names = packed.decompress(listed, _LIST_BYTES)
    except zlib.error:
        return None
    return names.decode(errors="surrogateescape").split("\0") if packed.eof else None


def _left(why: str, emit: Emit) -> Effect:
    emit(Notice("warm.engine_left", f"the engine's own files are not read beforehand: {why}"))
    return Effect("unchanged", after=f"not read: {why}")


class _Reading:
    """The files of one engine. read_bytes: what was cold and is read now."""

    def __init__(self, limit_bytes: int, stop: threading.Event) -> None:
        self.read_bytes = 0
        self._left_bytes = limit_bytes
        self._stop = stop
        self._lock = threading.Lock()

    def all(self, paths: Sequence[Path]) -> None:
        """Read them in this order, several at once."""
        shares = [paths[number::THREADS] for number in range(THREADS)]
        with ThreadPoolExecutor(THREADS, thread_name_prefix="warm-engine") as pool:
            list(pool.map(self._share, shares))

    def _share(self, paths: Sequence[Path]) -> None:
        buffer = new_buffer(_BUFFER_BYTES)
        for path in paths:
            try:
                self._one(path, buffer)
            except OSError:  # gone, or not for this user: the engine will say what it misses
                continue

    def _one(self, path: Path, buffer: memoryview) -> None:
        size_bytes = path.stat().st_size
        cold = size_bytes - (resident_bytes(path) or 0)
        with self._lock:
            if cold <= 0 or size_bytes > self._left_bytes:
                return
            self._left_bytes -= size_bytes
            self.read_bytes += cold
        with Reading(path, buffer) as reading:
            for _ in reading:
                if self._stop.is_set():
                    return
