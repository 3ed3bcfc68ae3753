"""How do the phases that an engine's log tells look on the timeline? Pure."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from kboot.quantities import show_seconds
from kboot.report.types import BootReport, Span

if TYPE_CHECKING:
    from kboot.engines.logs import LogReader

_AT_ONCE_S = 60.0
"""An engine that starts later than this after its boot was not waited for by anybody: the node stood by."""


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


def serve_span(started_unix_s: float, ready_unix_s: float) -> Span:
    """Return the span of an engine's start."""
    return Span("serve", "kboot", started_unix_s, ready_unix_s, detail="until the engine answered")


def ready_at(reader: LogReader, seen_unix_s: float) -> float:
    """Return when the engine was ready: as its log says, else when it was seen to answer."""
    last = reader.engine.phases[-1].name if reader.engine.phases else ""
    ended = [s.end_unix_s for s in reader.spans() if s.name == last and s.end_unix_s is not None]
    return min([*ended, seen_unix_s])


def with_start(report: BootReport, reader: LogReader, ready_unix_s: float) -> BootReport | None:
    """Return the boot with the engine's start that followed; a report of its own where that came much later.

    None where it did not follow: an engine that was running before, or that has been started again.
    """
    started_unix_s = reader.started_unix_s
    if report.ready_unix_s is not None or report.status not in ("done", "degraded"):
        return None
    if started_unix_s < report.started_unix_s:
        return None
    spans = (serve_span(started_unix_s, ready_unix_s), *engine_spans(reader, ready_unix_s))
    served = replace(report, finished_unix_s=ready_unix_s, ready_unix_s=ready_unix_s)
    if started_unix_s - report.finished_unix_s <= _AT_ONCE_S:
        return replace(served, spans=(*report.spans, *spans))
    return replace(served, started_unix_s=started_unix_s, kernel_start_unix_s=None, spans=spans, outcomes=())


def _ranks_words(ranks: tuple[tuple[str, float], ...]) -> str:
    """ "8 ranks: 41.0 s (Worker_DP3) to 45.3 s (Worker_DP0)"; a phase is drawn from first start to last end."""
    if not ranks:
        return ""
    (fast, least_s), *_, (slow, most_s) = sorted(ranks, key=lambda r: (r[1], r[0]))
    return f"{len(ranks)} ranks: {show_seconds(least_s)} ({fast}) to {show_seconds(most_s)} ({slow})"
