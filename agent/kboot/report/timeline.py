"""Where did the boot's time go, what waited for what, and how does it compare with earlier boots? Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Literal

from kboot.values import dataclass

if TYPE_CHECKING:
    from kboot.report.types import BootReport, Span

SLACK_S = 0.05
"""Two instants closer than this are one: phases are stamped by different threads, engine logs by their reader."""
_SLOWER_BY = 0.2
_SLOWER_BY_S = 1.0
_IN_SECONDS_S = 180.0
"""From here on the time axis has whole minutes."""


@dataclass(frozen=True, slots=True)
class Step:
    """One stretch of the critical path. kind wait: nothing that has a name ran, `name` says between what."""

    name: str
    lane: str
    kind: Literal["span", "wait"]
    start_unix_s: float
    end_unix_s: float

    @property
    def seconds(self) -> float:
        """Its length."""
        return self.end_unix_s - self.start_unix_s


@dataclass(frozen=True, slots=True)
class PhaseChange:
    """One phase now, and in the earlier boots: their median and 95th percentile."""

    name: str
    lane: str
    seconds: float
    median_s: float
    p95_s: float

    @property
    def slower_s(self) -> float:
        """Seconds more than the median; negative where faster."""
        return self.seconds - self.median_s


@dataclass(frozen=True, slots=True)
class Comparison:
    """This boot against earlier ones of the same profile.

    phases: those in both, largest loss first. regression: the phase that explains a boot slower than its median by
    more than a fifth and a second: it lost most, and took longer than its own p95; None where no phase is so.
    """

    boots: int
    total_s: float
    median_s: float
    p95_s: float
    phases: tuple[PhaseChange, ...]
    regression: PhaseChange | None


@dataclass(frozen=True, slots=True)
class Timeline:
    """One boot laid out on one clock.

    start: of the earliest span. end: when the engine answered, else when the boot ended.
    critical: steps whose lengths sum to end - start, in order. longest: the same, longest first.
    next_boot_saves_s: time of the critical path that went into bytes which are on the disk now.
    """

    report: BootReport
    start_unix_s: float
    end_unix_s: float
    spans: tuple[Span, ...]
    critical: tuple[Step, ...]
    next_boot_saves_s: float
    comparison: Comparison | None

    @property
    def total_s(self) -> float:
        """From the first instant known to the answer."""
        return self.end_unix_s - self.start_unix_s

    @property
    def longest(self) -> tuple[Step, ...]:
        """Steps of the critical path, longest first."""
        return tuple(sorted(self.critical, key=lambda s: (-s.seconds, s.start_unix_s)))

    def is_critical(self, span: Span) -> bool:
        """Return whether a stretch of this span, or of a part of it, is on the critical path."""
        return self._holds(span) or any(_is_part(other, span) and self._holds(other) for other in self.spans)

    def _holds(self, span: Span) -> bool:
        return any(
            s.kind == "span"
            and (s.name, s.lane) == (span.name, span.lane)
            and s.start_unix_s < span.end_unix_s
            and span.start_unix_s < s.end_unix_s
            for s in self.critical
        )


def make_timeline(report: BootReport, earlier: Sequence[BootReport] = ()) -> Timeline:
    """Return the boot laid out; `earlier`: boots to compare with, any order, this one and other profiles left out."""
    spans = tuple(sorted(report.spans, key=lambda s: (s.start_unix_s, s.end_unix_s, s.name)))
    start, end = bounds(report)
    critical = critical_path(spans, start, end)
    return Timeline(report, start, end, spans, critical, _saves_s(report, critical), compare(report, earlier))


def _saves_s(report: BootReport, critical: Sequence[Step]) -> float:
    if report.status not in ("done", "degraded"):
        return 0.0
    return sum(s.seconds for s in critical if (s.kind, s.lane, s.name) == ("span", "kboot", "fetch"))


def bounds(report: BootReport) -> tuple[float, float]:
    """Return the first instant known and when the engine answered (else when the boot ended)."""
    start = min([report.started_unix_s, *(s.start_unix_s for s in report.spans)])
    end = report.finished_unix_s if report.ready_unix_s is None else report.ready_unix_s
    return start, max(start, end)


def critical_path(spans: Sequence[Span], start_unix_s: float, end_unix_s: float) -> tuple[Step, ...]:
    """Return what the end waited for, step by step back to the start.

    1. Stand at the end. 2. Of the spans that began before here, take the one that ended last; one that was still
    running here did not hold anything up, unless nothing else had ended. 3. The time between its end and here belongs
    to a span that others divide (`serve`, `init engine`), where one covers it; else it is a wait without a name.
    4. Stand at its start and go on.
    """
    divided = [s for s in spans if _is_divided(s, spans)]
    leaves = [s for s in spans if s not in divided and s.seconds > 0]
    steps: list[Step] = []
    here, after = end_unix_s, "end"
    while here > start_unix_s + SLACK_S:
        span = _blocker(leaves, here)
        if span is None:
            steps += _between(divided, start_unix_s, here, f"before {after}")
            break
        stop = min(span.end_unix_s, here)
        if here - stop > SLACK_S:
            steps += _between(divided, stop, here, f"between {span.name} and {after}")
        else:
            stop = here
        begin = max(start_unix_s, span.start_unix_s)
        steps.append(Step(span.name, span.lane, "span", begin, stop))
        here, after = begin, span.name
    return tuple(reversed(steps))


def compare(report: BootReport, earlier: Sequence[BootReport]) -> Comparison | None:
    """Return this run against earlier good ones of its kind and profile; None without one, or if this one failed."""
    alike = [b for b in earlier if (b.what, b.profile) == (report.what, report.profile)]
    same = [b for b in alike if _key(b) != _key(report) and _is_good(b, report)]
    if not same or not _is_good(report, report):
        return None
    totals = sorted(_total_s(b) for b in same)
    median_s, total_s = percentile(totals, 0.5), _total_s(report)
    phases = tuple(sorted(_changes(report, same), key=lambda c: (-c.slower_s, c.name)))
    worst = next((c for c in phases if c.slower_s > SLACK_S and c.seconds > c.p95_s), None)
    slower = total_s - median_s > max(_SLOWER_BY_S, _SLOWER_BY * median_s)
    return Comparison(len(same), total_s, median_s, percentile(totals, 0.95), phases, worst if slower else None)


def percentile(values: Sequence[float], fraction: float) -> float:
    """Return the value that `fraction` of the values do not exceed, interpolated; `values` sorted, not empty."""
    place = (len(values) - 1) * fraction
    low = int(place)
    high = min(low + 1, len(values) - 1)
    return values[low] + (values[high] - values[low]) * (place - low)


def rows(spans: Sequence[Span]) -> tuple[tuple[Span, ...], ...]:
    """Return the spans in as few rows as it takes that no two of a row overlap, in order of start."""
    packed: list[list[Span]] = []
    for span in sorted(spans, key=lambda s: (s.start_unix_s, -s.end_unix_s, s.name)):
        row = next((r for r in packed if r[-1].end_unix_s <= span.start_unix_s), None)
        if row is None:
            packed.append([span])
        else:
            row.append(span)
    return tuple(tuple(r) for r in packed)


def ticks(total_s: float, most: int) -> tuple[float, ...]:
    """Return round numbers from 0 to at most total_s, at most `most` + 1 of them, evenly spaced."""
    if total_s <= 0:
        return (0.0,)
    if total_s < _IN_SECONDS_S:
        sizes = [m * 10.0**e for e in range(-3, 3) for m in (1, 2, 5)]
    else:
        sizes = [60.0 * m * 10.0**e for e in range(6) for m in (1, 2, 5)]
    step = next((s for s in sizes if total_s / s <= most), total_s)
    return tuple(i * step for i in range(int(total_s / step + 1e-9) + 1))


def tick_label(tick_s: float, total_s: float) -> str:
    """Return what stands at a place of the time axis: seconds on a short one, minutes on a long one."""
    if tick_s == 0:
        return "0"
    return f"{tick_s:g} s" if total_s < _IN_SECONDS_S else f"{tick_s / 60:g} min"


def _is_divided(span: Span, spans: Sequence[Span]) -> bool:
    """Return whether other spans are parts of this one."""
    return any(_is_part(other, span) for other in spans)


def _is_part(part: Span, span: Span) -> bool:
    """Return whether a span is a part of another: the engine's of `serve`, an engine phase's of a longer one."""
    return (
        part.lane == "engine"
        and (span.lane == "engine" or span.name == "serve")
        and part is not span
        and part.start_unix_s >= span.start_unix_s - SLACK_S
        and part.end_unix_s <= span.end_unix_s + SLACK_S
        and (part.seconds < span.seconds - SLACK_S or part.lane != span.lane)
    )


def _blocker(leaves: Sequence[Span], here: float) -> Span | None:
    """Return the span that the instant `here` waited for."""
    began = [s for s in leaves if s.start_unix_s < here - 1e-9]
    ended = [s for s in began if s.end_unix_s <= here + SLACK_S]
    if ended:
        return max(ended, key=lambda s: (s.end_unix_s, s.seconds, s.name))
    return max(began, key=lambda s: (s.start_unix_s, s.name), default=None)


def _between(divided: Sequence[Span], start: float, end: float, wait: str) -> list[Step]:
    """Return the steps of a stretch in which no leaf ran, last first: by the innermost divided span, else waits."""
    edges = {start, end} | {e for s in divided for e in (s.start_unix_s, s.end_unix_s) if start < e < end}
    steps: list[Step] = []
    for stop, begin in pairwise(sorted(edges, reverse=True)):
        around = [s for s in divided if s.start_unix_s <= begin and stop <= s.end_unix_s]
        inner = min(around, key=lambda s: s.seconds, default=None)
        step = (
            Step(wait, "machine", "wait", begin, stop)
            if inner is None
            else Step(inner.name, inner.lane, "span", begin, stop)
        )
        if steps and (stop - begin <= SLACK_S or (steps[-1].name, steps[-1].lane) == (step.name, step.lane)):
            step = replace(steps.pop(), start_unix_s=begin)
        steps.append(step)
    return steps


def _key(boot: BootReport) -> tuple[str, float]:
    """Return what tells two boots apart: the kernel's boot id alone is shared by restarts of the unit."""
    return boot.boot_id, boot.started_unix_s


def _is_good(boot: BootReport, like: BootReport) -> bool:
    """Return whether a boot ended well and did as much: served or not, all of it or a part.

    A part is the bytes alone (no cache key), or the engine's start alone, of a node that stood by.
    """
    served = (boot.ready_unix_s is None) == (like.ready_unix_s is None)
    whole = bool(boot.cache_key) == bool(like.cache_key)
    return boot.status in ("done", "degraded") and served and whole and _prepared(boot) == _prepared(like)


def _prepared(boot: BootReport) -> bool:
    """Return whether the boot did more than start its engine."""
    return any(span.name != "serve" for span in boot.spans if span.lane == "kboot")


def _total_s(boot: BootReport) -> float:
    """Return kboot's own start to the answer: machine stages differ between a power-on and a restart of the unit."""
    return bounds(boot)[1] - boot.started_unix_s


def _length_of(boot: BootReport) -> dict[tuple[str, str], float]:
    lengths: dict[tuple[str, str], float] = {}
    for span in boot.spans:
        lengths[(span.lane, span.name)] = lengths.get((span.lane, span.name), 0.0) + span.seconds
    return lengths


def _changes(report: BootReport, earlier: Sequence[BootReport]) -> list[PhaseChange]:
    lengths = [_length_of(b) for b in earlier]
    changes = []
    for (lane, name), seconds in _length_of(report).items():
        before = sorted(each[(lane, name)] for each in lengths if (lane, name) in each)
        if before:
            changes.append(PhaseChange(name, lane, seconds, percentile(before, 0.5), percentile(before, 0.95)))
    return changes
