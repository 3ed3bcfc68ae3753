"""How does a boot look as a picture? One self-contained SVG that follows the reader's light or dark theme. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from xml.sax.saxutils import escape, quoteattr

from kboot.quantities import show_bytes, show_rate, show_seconds
from kboot.report.render_text import shorten
from kboot.report.text_timeline import headline
from kboot.report.timeline import Timeline, rows, tick_label, ticks
from kboot.report.types import Outcome, Span
from kboot.values import dataclass

_WIDTH = 960
_LEFT, _RIGHT, _TOP = 190, 24, 92
_ROW, _BAR = 26, 16
_FILE_ROW, _FILE_ROWS = 5, 24
_LANES = (("machine", "before kboot"), ("kboot", "kboot"), ("engine", "engine"))
_FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif"

_STYLE = """
.kb { font: 12px FONT; fill: #24292f; }
.kb .ground { fill: #ffffff; }
.kb .title { font-size: 16px; font-weight: 600; }
.kb .quiet { fill: #656d76; }
.kb .lane { font-size: 10.5px; font-weight: 600; letter-spacing: .08em; fill: #656d76; }
.kb .grid { stroke: #d8dee4; stroke-width: 1; }
.kb .machine { fill: #8c959f; } .kb .kboot { fill: #0f7b8a; } .kb .engine { fill: #8250df; }
.kb .failed { fill: #cf222e; } .kb .file { fill: #0f7b8a; opacity: .45; }
.kb .slack { opacity: .38; }
.kb .ready { stroke: #1a7f37; stroke-width: 1.5; } .kb .readytext { fill: #1a7f37; font-weight: 600; }
@media (prefers-color-scheme: dark) {
.kb { fill: #e6edf3; }
.kb .ground { fill: #0d1117; }
.kb .quiet, .kb .lane { fill: #8b949e; }
.kb .grid { stroke: #2a313a; }
.kb .machine { fill: #6e7681; } .kb .kboot, .kb .file { fill: #39b3c4; } .kb .engine { fill: #a98bf0; }
.kb .failed { fill: #f85149; }
.kb .ready { stroke: #3fb950; } .kb .readytext { fill: #3fb950; }
}
""".replace("FONT", _FONT)


@dataclass(frozen=True, slots=True)
class _Scale:
    """Places instants on the time axis."""

    start_unix_s: float
    total_s: float

    def x(self, unix_s: float) -> float:
        """Return the horizontal place of an instant."""
        part = (unix_s - self.start_unix_s) / self.total_s if self.total_s > 0 else 0.0
        return _LEFT + min(1.0, max(0.0, part)) * (_WIDTH - _LEFT - _RIGHT)


def timeline_svg(timeline: Timeline) -> str:
    """Return the picture. Full bars are on the critical path, pale ones had slack; thin ones are single files."""
    scale = _Scale(timeline.start_unix_s, timeline.total_s)
    body: list[str] = []
    y = float(_TOP)
    for lane, title in _LANES:
        spans = [s for s in timeline.spans if s.lane == lane]
        if not spans:
            continue
        body.append(_text(24, y + 10, title.upper(), "lane"))
        y += 18
        for span in spans:
            body += _span(timeline, span, y, scale)
            y += _ROW
            if span.lane == "kboot" and (files := _files_of(timeline.report.outcomes, span)):
                drawn, height = _files(files, y - 4, scale)
                body += drawn
                y += height
        y += 8
    height = y + 46
    parts = [
        *_ground(timeline, height),
        *_grid(timeline, y, scale),
        *body,
        *_ready(timeline, y, scale),
        *_legend(y + 30),
    ]
    label = quoteattr(" ".join(headline(timeline)))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height:.0f}" '
        f'width="{_WIDTH}" height="{height:.0f}" role="img" aria-label={label} class="kb">'
        f"<style>{_STYLE}</style>{''.join(parts)}</svg>\n"
    )


def _ground(timeline: Timeline, height: float) -> Iterable[str]:
    first, *others = headline(timeline, width=200)
    yield f'<rect class="ground" width="{_WIDTH}" height="{height:.0f}"/>'
    yield _text(24, 32, first, "title")
    for number, line in enumerate(others[:2]):
        yield _text(24, 52 + 17 * number, shorten(line.strip(), 140), "quiet")


def _grid(timeline: Timeline, bottom: float, scale: _Scale) -> Iterable[str]:
    for tick in ticks(timeline.total_s, 8):
        x = scale.x(timeline.start_unix_s + tick)
        yield f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{_TOP - 4}" y2="{bottom:.1f}"/>'
        yield _text(x, bottom + 14, tick_label(tick, timeline.total_s), "quiet", "middle")


def _span(timeline: Timeline, span: Span, y: float, scale: _Scale) -> Iterable[str]:
    critical = timeline.is_critical(span)
    left, right = scale.x(span.start_unix_s), scale.x(span.end_unix_s)
    width = max(2.0, right - left)
    kind = "failed" if span.status in ("failed", "interrupted") else span.lane
    numbers = " · ".join(p for p in _numbers(span) if p)
    yield _text(_LEFT - 12, y + 12, shorten(span.name, 24), "", "end")
    yield (
        f'<rect class="{kind}{"" if critical else " slack"}" x="{left:.1f}" y="{y:.1f}" width="{width:.1f}" '
        f'height="{_BAR}" rx="3"><title>{escape(_tip(span, critical))}</title></rect>'
    )
    # Beside the bar where there is room to its right, else before it.
    if left + width + 6 + 6.2 * len(numbers) < _WIDTH - 8:
        yield _text(left + width + 6, y + 12, numbers, "quiet")
    else:
        yield _text(left - 6, y + 12, numbers, "quiet", "end")


def _numbers(span: Span) -> tuple[str, ...]:
    size = show_bytes(span.size_bytes) if span.size_bytes else ""
    return show_seconds(span.seconds), size, show_rate(span.size_bytes, span.seconds)


def _tip(span: Span, critical: bool) -> str:
    words = [span.name, *_numbers(span), "on the critical path" if critical else "", span.detail]
    if span.status != "done":
        words.append(span.status)
    return ", ".join(w for w in words if w)


def _files_of(outcomes: Sequence[Outcome], span: Span) -> tuple[Span, ...]:
    """Return the files a phase moved, as spans."""
    return tuple(
        Span(o.title, "kboot", o.start_unix_s, o.start_unix_s + o.seconds, o.size_bytes, o.status, o.source)
        for o in outcomes
        if o.phase == span.name and o.size_bytes > 0 and o.seconds > 0
    )


def _files(files: Sequence[Span], top: float, scale: _Scale) -> tuple[list[str], float]:
    """Return thin bars, as many rows as files ran at once (at most _FILE_ROWS), and the height they take."""
    packed = rows(files)
    drawn = []
    for number, row in enumerate(packed):
        y = top + (number % _FILE_ROWS) * _FILE_ROW
        for file in row:
            left = scale.x(file.start_unix_s)
            width = max(0.8, scale.x(file.end_unix_s) - left - 0.8)
            drawn.append(
                f'<rect class="{"failed" if file.status == "failed" else "file"}" x="{left:.1f}" y="{y:.1f}" '
                f'width="{width:.1f}" height="{_FILE_ROW - 1.5}"><title>{escape(_tip(file, False))}</title></rect>'
            )
    return drawn, min(len(packed), _FILE_ROWS) * _FILE_ROW + 6.0


def _ready(timeline: Timeline, bottom: float, scale: _Scale) -> Iterable[str]:
    if timeline.report.ready_unix_s is None:
        return
    x = scale.x(timeline.report.ready_unix_s)
    yield f'<line class="ready" x1="{x:.1f}" x2="{x:.1f}" y1="{_TOP - 4}" y2="{bottom:.1f}"/>'
    yield _text(x, _TOP - 9, f"ready {show_seconds(timeline.total_s)}", "readytext", "end" if x > 820 else "middle")


def _legend(y: float) -> Iterable[str]:
    yield f'<rect class="kboot" x="24" y="{y - 9:.1f}" width="14" height="10" rx="2"/>'
    yield _text(44, y, "on the critical path", "quiet")
    yield f'<rect class="kboot slack" x="174" y="{y - 9:.1f}" width="14" height="10" rx="2"/>'
    yield _text(194, y, "had slack", "quiet")


def _text(x: float, y: float, text: str, kind: str, anchor: str = "start") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" class="{kind}" text-anchor="{anchor}">{escape(text)}</text>'
