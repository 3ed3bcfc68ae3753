"""How does a boot look as a page to open and to send on? One HTML file without scripts or outside parts. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import TYPE_CHECKING

from kboot.quantities import show_bytes, show_rate, show_seconds
from kboot.report.render_svg import timeline_svg
from kboot.report.text_timeline import headline, summary

if TYPE_CHECKING:
    from kboot.report.price import HourPrice
    from kboot.report.timeline import Timeline
    from kboot.report.types import Outcome

_MOST_ROWS = 2000
_STYLE = """
:root { color-scheme: light dark;
  --ink: #24292f; --quiet: #656d76; --line: #d8dee4; --ground: #ffffff; --bad: #cf222e; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6edf3; --quiet: #8b949e; --line: #2a313a; --ground: #0d1117; --bad: #f85149; }
}
body { font: 15px/1.5 system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif; color: var(--ink);
  background: var(--ground); max-width: 960px; margin: 2rem auto; padding: 0 1rem; }
svg { width: 100%; height: auto; display: block; border: 1px solid var(--line); border-radius: 8px; }
h2 { font-size: 1.05rem; margin: 2rem 0 .5rem; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: 13px; font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: .3rem .6rem; border-bottom: 1px solid var(--line); vertical-align: top; }
th { color: var(--quiet); font-weight: 600; }
td.n, th.n { text-align: right; white-space: nowrap; }
tr.failed td { color: var(--bad); }
pre { white-space: pre-wrap; font: 13px/1.5 ui-monospace, 'DejaVu Sans Mono', monospace; margin: 1rem 0; }
footer { color: var(--quiet); font-size: 12px; margin: 2rem 0; }
"""


def timeline_html(timeline: Timeline, *, version: str, price: HourPrice | None = None) -> str:
    """Return the page: the picture, what the boot waited for, phases, actions and the comparison as tables."""
    title = headline(timeline, width=10_000)[0]
    foot = f"kboot {version}, boot {timeline.report.boot_id}"
    said = "\n".join(summary(timeline, width=100, price=price))
    sections = [
        timeline_svg(timeline),
        f"<pre>{escape(said)}</pre>" if said else "",
        _error(timeline),
        _section("Critical path", ("step", "lane", "seconds", "share"), _critical(timeline)),
        _section("Phases", ("phase", "lane", "from", "seconds", "bytes", "rate", "status"), _phases(timeline)),
        _section("Against earlier boots", ("phase", "now", "median", "difference"), _comparison(timeline)),
        _section("Actions", ("action", "status", "seconds", "bytes", "source", "why"), _actions(timeline)),
    ]
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head>\n<body>\n<main>\n"
        f"{''.join(sections)}</main>\n<footer>{escape(foot)}</footer>\n"
        "</body></html>\n"
    )


_Row = tuple[str, Sequence[str]]
_NUMBERS = frozenset({"seconds", "share", "from", "bytes", "rate", "now", "median", "difference"})


def _section(title: str, heads: Sequence[str], lines: Iterable[_Row]) -> str:
    body = "".join(
        f"<tr{f' class={kind}' if kind else ''}>"
        + "".join(f"<td{_class(head)}>{escape(cell)}</td>" for head, cell in zip(heads, cells, strict=True))
        + "</tr>\n"
        for kind, cells in lines
    )
    if not body:
        return ""
    top = "".join(f"<th{_class(head)}>{escape(head)}</th>" for head in heads)
    return f'<h2>{escape(title)}</h2>\n<div class="scroll"><table><tr>{top}</tr>\n{body}</table></div>\n'


def _class(head: str) -> str:
    return " class=n" if head in _NUMBERS else ""


def _error(timeline: Timeline) -> str:
    error = timeline.report.error
    if error is None:
        return ""
    lines = [error.message, *error.where, *([f"hint: {error.hint}"] if error.hint else [])]
    return f"<h2>error: {escape(error.code)}</h2>\n<pre>{escape(chr(10).join(lines))}</pre>\n"


def _critical(timeline: Timeline) -> Iterable[_Row]:
    total = timeline.total_s or 1.0
    for step in timeline.critical:
        name = f"{step.name} (waiting)" if step.kind == "wait" else step.name
        yield "", (name, step.lane, show_seconds(step.seconds), f"{100 * step.seconds / total:.0f} %")


def _phases(timeline: Timeline) -> Iterable[_Row]:
    for span in timeline.spans:
        size = show_bytes(span.size_bytes) if span.size_bytes else ""
        since = f"+{show_seconds(span.start_unix_s - timeline.start_unix_s)}"
        cells = (span.name, span.lane, since, show_seconds(span.seconds), size)
        yield _kind(span.status), (*cells, show_rate(span.size_bytes, span.seconds), span.status)


def _comparison(timeline: Timeline) -> Iterable[_Row]:
    if timeline.comparison is None:
        return
    for change in timeline.comparison.phases:
        apart = show_seconds(abs(change.slower_s))
        sign = "" if apart == show_seconds(0) else "+" if change.slower_s > 0 else "−"
        difference = f"{sign}{apart}"
        yield "", (change.name, show_seconds(change.seconds), show_seconds(change.median_s), difference)


def _actions(timeline: Timeline) -> Iterable[_Row]:
    for outcome in timeline.report.outcomes[:_MOST_ROWS]:
        yield _kind(outcome.status), _action(outcome)


def _action(outcome: Outcome) -> tuple[str, ...]:
    size = show_bytes(outcome.size_bytes) if outcome.size_bytes else ""
    why = outcome.reason if outcome.error is None else f"{outcome.error.code}: {outcome.error.message}"
    return outcome.title, outcome.status, show_seconds(outcome.seconds), size, outcome.source, why


def _kind(status: str) -> str:
    return "failed" if status in ("failed", "interrupted") else ""
