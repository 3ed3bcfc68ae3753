"""How does a boot read: bars on one clock, what it waited for, and how it compares? Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kboot.checks.words import count
from kboot.quantities import show_bytes, show_rate, show_seconds, show_time
from kboot.report.render_json import workers_json
from kboot.report.render_text import Paint, Style, error_text, join, no_paint, shorten, table, width_now, wrap
from kboot.report.timeline import SLACK_S, Comparison, PhaseChange, Step, Timeline, tick_label, ticks
from kboot.report.workers import workers_text

if TYPE_CHECKING:
    from kboot.report.price import HourPrice
    from kboot.report.types import BootReport, RunKind, Span

_LANES = (("machine", "before kboot"), ("kboot", "kboot"), ("engine", "engine"))
_SECONDS, _BYTES, _RATE = 11, 8, 9
_NARROW = 72
_LONGEST_SHOWN = 3
_ENOUGH_BOOTS = 4
"""A 95th percentile of fewer is the slowest of them by another name."""
_WORTH_NAMING = 0.05
"""Steps below this part of the whole are not what an operator would change."""
_STYLE_OF: dict[str, Style] = {"done": "good", "degraded": "warn", "failed": "bad", "interrupted": "bad"}


def timeline_text(timeline: Timeline, *, paint: Paint = no_paint, price: HourPrice | None = None) -> str:
    """Return the timeline for a terminal; price: what this node costs, to price the wait."""
    name = 14 if width_now() < _NARROW else 20
    bar = max(1, width_now() - name - _SECONDS - _BYTES - _RATE - 8)
    lines = [*headline(timeline, paint=paint), ""]
    for lane, title in _LANES:
        spans = [s for s in timeline.spans if s.lane == lane]
        if spans:
            lines += [paint(title, "faint"), *(_row(timeline, s, name, bar, paint) for s in spans)]
    lines += [_axis(timeline.total_s, name, bar), ""] if timeline.spans else []
    lines += summary(timeline, price=price)
    if timeline.report.workers:
        lines += ["", *workers_text(workers_json(timeline.report.workers), paint=paint)]
    error = timeline.report.error
    if error is not None and error.code == "interrupted":  # which of many files was under way helps nobody
        lines += ["", *wrap(error.hint, "hint: ")] if error.hint else []
    elif error is not None:
        lines += ["", error_text(error, paint)]
    return join(lines)


def headline(timeline: Timeline, width: int | None = None, paint: Paint = no_paint) -> list[str]:
    """Return what was booted, how it ended and what was proven of the bytes."""
    report = timeline.report
    what = "boot" if report.cache_key else "checkpoint"
    lines = [f"{paint(f'{what} of {report.profile}', 'strong')}: {paint(_ending(timeline), _STYLE_OF[report.status])}"]
    commit = f"commit {report.commit[:12]}, " if report.commit else ""
    lines += wrap(f"{commit}started {show_time(report.started_unix_s)}, boot {report.boot_id[:8]}", "  ", width)
    if report.verify_claim:
        lines += wrap(report.verify_claim, "  ", width)
    return lines


def summary(timeline: Timeline, width: int | None = None, price: HourPrice | None = None) -> list[str]:
    """Return what took longest, what the next boot saves, the price of the wait, the comparison and warnings."""
    lines: list[str] = []
    for number, step in enumerate(_worth_naming(timeline), 1):
        lines += wrap(_step_words(step, timeline), "longest   " if number == 1 else " " * 10, width)
    if timeline.next_boot_saves_s > SLACK_S:
        saves = f"about {show_seconds(timeline.next_boot_saves_s)}: what was fetched now is on the disk"
        lines += wrap(saves, "next boot saves ", width)
    if price is not None:
        cost = f"${price.usd_per_hour * timeline.total_s / 3600:,.2f} at ${price.usd_per_hour:,.2f} an hour"
        cost += f" ({price.basis})" if price.basis else ""
        lines += wrap(cost, "the wait cost ", width)
    lines += _comparison_lines(timeline.comparison, timeline.report.what, width)
    for warning in timeline.report.warnings:
        lines += wrap(warning, "warning   ", width)
    return lines


def _ending(timeline: Timeline) -> str:
    report = timeline.report
    total = show_seconds(timeline.total_s)
    match report.status:
        case "done" | "degraded":
            word = "ready to serve" if report.ready_unix_s is not None else "prepared" if timeline.spans else "in place"
            return f"{word} in {total}{'' if report.status == 'done' else ', degraded'}"
        case _:
            return f"{report.status} after {total}"


def _row(timeline: Timeline, span: Span, width: int, bar: int, paint: Paint) -> str:
    critical = timeline.is_critical(span)
    name = f"{'*' if critical else ' '} {shorten(span.name, width):<{width}}"
    drawn = draw_bar(span.start_unix_s - timeline.start_unix_s, span.seconds, timeline.total_s, bar, critical)
    size = show_bytes(span.size_bytes) if span.size_bytes else ""
    rate = show_rate(span.size_bytes, span.seconds) if span.status == "done" else span.status
    style: Style = "bad" if span.status in ("failed", "interrupted") else "strong" if critical else "faint"
    numbers = f"{show_seconds(span.seconds):>{_SECONDS}} {size:>{_BYTES}} {rate:>{_RATE}}"
    return f"{name} {paint(drawn, style)} {numbers}".rstrip()


def draw_bar(start_s: float, seconds: float, total_s: float, cells: int, critical: bool) -> str:
    """Return a bar of `cells` characters; a span that has a length is at least one cell wide."""
    if total_s <= 0:
        return " " * cells
    begin = min(cells - 1, max(0, int(start_s / total_s * cells)))
    stop = min(cells, max(begin + 1, round((start_s + seconds) / total_s * cells)))
    fill = "█" if critical else "░"
    return " " * begin + fill * (stop - begin) + " " * (cells - stop)


def _axis(total_s: float, width: int, bar: int) -> str:
    marks = [" "] * (bar + 8)
    for tick in ticks(total_s, 4):
        place = int(tick / total_s * bar) if total_s > 0 else 0
        label = tick_label(tick, total_s)
        if all(c == " " for c in marks[max(0, place - 1) : place + len(label)]):
            marks[place : place + len(label)] = label
    label = "* critical path" if width > 15 else "* critical"
    return f"  {label:<{width}} {''.join(marks)}".rstrip()


def _worth_naming(timeline: Timeline) -> tuple[Step, ...]:
    if not timeline.spans:
        return ()
    least_s = max(SLACK_S, _WORTH_NAMING * timeline.total_s)
    return tuple(s for s in timeline.longest[:_LONGEST_SHOWN] if s.seconds >= least_s)


def _step_words(step: Step, timeline: Timeline) -> str:
    seconds = _as_drawn(step, timeline)
    part = f"{100 * seconds / timeline.total_s:.0f} %" if timeline.total_s > 0 else ""
    kind = " (waiting)" if step.kind == "wait" else ""
    of = [s.detail for s in timeline.spans if (s.lane, s.name) == (step.lane, step.name) == ("engine", step.name)]
    ranks = f"; {of[0]}" if of and of[0] else ""
    whole = "boot" if timeline.report.what == "boot" else "run"
    return f"{show_seconds(seconds)} {step.name}{kind}, {part} of the {whole}{ranks}"


def _as_drawn(step: Step, timeline: Timeline) -> float:
    """Return a step's seconds; where only slack parts it from its bar, what stands beside the bar."""
    bars = [s.seconds for s in timeline.spans if step.kind == "span" and (s.lane, s.name) == (step.lane, step.name)]
    return next((seconds for seconds in bars if abs(seconds - step.seconds) <= SLACK_S), step.seconds)


def _comparison_lines(comparison: Comparison | None, what: RunKind, width: int | None) -> list[str]:
    if comparison is None:
        return []
    boots = count(comparison.boots, "earlier boot" if what == "boot" else "earlier run")
    p95 = f", p95 {show_seconds(comparison.p95_s)}" if comparison.boots >= _ENOUGH_BOOTS else ""
    median = f"median {show_seconds(comparison.median_s)}{p95} of {boots}"
    lines = wrap(f"{show_seconds(comparison.total_s)} from kboot's start; {median}", "compared  ", width)
    if comparison.regression is not None:
        words = _change_words(comparison.regression, comparison.boots)
        lines += wrap(words, "slower by ", width)
    return lines


def _change_words(change: PhaseChange, boots: int) -> str:
    p95 = f", p95 {show_seconds(change.p95_s)}" if boots >= _ENOUGH_BOOTS else ""
    before = f"median {show_seconds(change.median_s)}{p95}"
    return f"{show_seconds(change.slower_s)} in {change.name}: {show_seconds(change.seconds)}, {before}"


def history_text(reports: tuple[BootReport, ...]) -> str:
    """Return one line a boot, newest first, with the number that --boot takes."""
    took = [_took(report) for report in reports]
    digits, longest = len(str(len(reports))), max(map(len, took), default=0)
    rows = [
        (f"{n:>{digits}}", show_time(r.started_unix_s), r.status, seconds.rjust(longest), _of_what(r))
        for n, (r, seconds) in enumerate(zip(reports, took, strict=True), 1)
    ]
    return join(table(rows, 0))


def _took(report: BootReport) -> str:
    end = report.finished_unix_s if report.ready_unix_s is None else report.ready_unix_s
    return show_seconds(end - report.started_unix_s)


def _of_what(report: BootReport) -> str:
    return f"{report.profile}{' (bytes alone)' if report.what == 'bytes' else ''}"
