"""How do the phases that an engine's log tells look on the timeline? Pure."""

from __future__ import annotations

from kboot.engines.logs import LogReader
from kboot.report.types import Span
from kboot.report.units import show_seconds


def engine_spans(reader: LogReader, until_unix_s: float) -> tuple[Span, ...]:
    """Return the phases of the engine's boot; one that has not ended is cut at `until_unix_s` and says so."""
    return tuple(
        Span(
            s.name,
            "engine",
            s.start_unix_s,
            until_unix_s if s.end_unix_s is None else s.end_unix_s,
            status="unfinished" if s.end_unix_s is None else "done",
            detail=_ranks_words(s.ranks),
        )
        for s in reader.spans()
    )


def _ranks_words(ranks: tuple[tuple[str, float], ...]) -> str:
    """ "8 ranks: 41.0 s (Worker_DP3) to 45.3 s (Worker_DP0)"; a phase is drawn from first start to last end."""
    if not ranks:
        return ""
    (fast, least_s), *_, (slow, most_s) = sorted(ranks, key=lambda r: (r[1], r[0]))
    return f"{len(ranks)} ranks: {show_seconds(least_s)} ({fast}) to {show_seconds(most_s)} ({slow})"
