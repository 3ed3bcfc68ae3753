"""How does a boot look in a trace viewer (Perfetto, chrome://tracing)? The Chrome trace event format. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from kboot.report.timeline import Timeline, rows
from kboot.report.types import Outcome, Span

_PROCESSES = (("machine", 1), ("kboot", 2), ("engine", 3))
_FILES = 4


def trace_document(timeline: Timeline) -> dict[str, Any]:
    """Return the trace: one process a lane, files in rows of their own; times in microseconds from the first instant.

    Spans of one lane that overlap go to rows (threads) of their own, since a viewer nests what shares a thread.
    """
    report = timeline.report
    events: list[dict[str, Any]] = []
    for lane, pid in _PROCESSES:
        spans = [s for s in timeline.spans if s.lane == lane]
        events += _process(pid, lane, spans, timeline)
    files = [_file_span(o) for o in report.outcomes if o.size_bytes > 0]
    events += _process(_FILES, "files", files, timeline)
    if report.ready_unix_s is not None:
        at = _micros(report.ready_unix_s, timeline)
        events.append({"name": "ready", "ph": "i", "s": "g", "ts": at, "pid": 2, "tid": 0})
    return {
        "traceEvents": events,
        "displayTimeUnit": "ms",
        "otherData": {"boot_id": report.boot_id, "profile": report.profile, "commit": report.commit},
    }


def _process(pid: int, name: str, spans: Sequence[Span], timeline: Timeline) -> Iterable[dict[str, Any]]:
    if not spans:
        return
    yield {"name": "process_name", "ph": "M", "pid": pid, "tid": 0, "args": {"name": name}}
    yield {"name": "process_sort_index", "ph": "M", "pid": pid, "tid": 0, "args": {"sort_index": pid}}
    for tid, row in enumerate(rows(spans), 1):
        for span in row:
            yield {
                "name": span.name,
                "cat": name,
                "ph": "X",
                "ts": _micros(span.start_unix_s, timeline),
                "dur": round(span.seconds * 1e6),
                "pid": pid,
                "tid": tid,
                "args": _args(span, timeline),
            }


def _args(span: Span, timeline: Timeline) -> dict[str, Any]:
    args: dict[str, Any] = {"status": span.status}
    if span.size_bytes:
        args["bytes"] = span.size_bytes
    if span.detail:
        args["detail"] = span.detail
    if timeline.is_critical(span):
        args["critical"] = True
    return args


def _file_span(outcome: Outcome) -> Span:
    end = outcome.start_unix_s + outcome.seconds
    detail = f"{outcome.reason}; from {outcome.source}" if outcome.source else outcome.reason
    return Span(outcome.title, "kboot", outcome.start_unix_s, end, outcome.size_bytes, outcome.status, detail)


def _micros(unix_s: float, timeline: Timeline) -> int:
    return round((unix_s - timeline.start_unix_s) * 1e6)
