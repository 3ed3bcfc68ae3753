"""How long may reading the weights wait for an engine that still imports its modules? From earlier boots. Pure.

Whatever is read beside an import delays it: 18 s alone, 32 s beside 19 GB that were read as fast as the disk gave them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kboot.report.types import BootReport

ASSUMED_BYTES_S = 1 << 30
"""What a disk is taken to give until a boot has measured it: what one cloud volume gives."""

_SLACK = 1.25  # the disk may be slower than last time, and the engine faster
_MEASURED_BYTES = 1 << 30  # what less than this took says little of a disk


def weights_hold_s(earlier: Iterable[BootReport], profile: str, size_bytes: int) -> float:
    """Return for how long they may wait from the engine's start, and are read all the same when it asks for them.

    earlier: newest first. size_bytes: to be read. 0: they may not wait, or nobody knows when the engine will ask.
    """
    reports = tuple(earlier)
    asked_s = next((s for r in reports if r.profile == profile and (s := _until_asked_s(r)) is not None), None)
    if asked_s is None:
        return 0.0
    rate = next((rate for r in reports if (rate := _read_bytes_s(r)) is not None), ASSUMED_BYTES_S)
    return max(0.0, asked_s - _SLACK * size_bytes / rate)


def _until_asked_s(report: BootReport) -> float | None:
    """Return how long after its start the engine of a boot asked for the weights."""
    began = next((s.start_unix_s for s in report.spans if (s.lane, s.name) == ("kboot", "serve")), None)
    asked = next((s.start_unix_s for s in report.spans if (s.lane, s.name) == ("engine", "load model")), None)
    return None if began is None or asked is None or report.ready_unix_s is None else max(0.0, asked - began)


def _read_bytes_s(report: BootReport) -> float | None:
    """Return what the disk gave of the checkpoint, whose bytes have a source; the engine's own are small files."""
    read = [o for o in report.outcomes if o.phase == "warm" and o.source and o.size_bytes]
    size_bytes = sum(o.size_bytes for o in read)
    if size_bytes < _MEASURED_BYTES:
        return None
    took_s = max(o.start_unix_s + o.seconds for o in read) - min(o.start_unix_s for o in read)
    return size_bytes / took_s if took_s > 0 else None
