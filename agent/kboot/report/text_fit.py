"""How does the answer to "does it fit?" read? Pure."""

from __future__ import annotations

from collections.abc import Sequence

from kboot.plan.fit import FitReport, FitRow, gb
from kboot.report.render_text import WIDTH, Paint, Style, join, no_paint, table, wrap

_HEAD = ("", "hardware", "memory", "over", "per GPU", "KV cache", "layout")
_NUMBERS = frozenset({2, 3, 4, 5})


def fit_text(report: FitReport, costs: Sequence[str] = (), *, width: int = WIDTH, paint: Paint = no_paint) -> str:
    """Return the table: what was asked first, then everything else; costs: one dated line each."""
    about = f" ({report.weights_from})" if report.weights_from else ""
    lines = wrap(f"{gb(report.weights_bytes)} of weights{about}", width=width)
    if report.asked:
        lines += ["", paint("asked", "strong"), *_rows(report.asked, paint)]
    others = [row for row in report.rows if row not in report.asked]
    if others:
        lines += ["", *([paint("also looked at", "strong")] if report.asked else []), *_rows(others, paint)]
    if costs:
        lines += ["", paint("costs", "strong"), *(line for c in costs for line in wrap(c, "  ", width))]
    lines += ["", *wrap("over: memory of all GPUs beyond the weights; per GPU: weights on each", "note  ", width)]
    reserve = ", ".join(f"{r.name} {gb(r.size_bytes)}" for r in report.reserves)
    lines += wrap(f"reserve per GPU: {reserve}", "note  ", width)
    for note in report.notes:
        lines += wrap(note, "note  ", width)
    return join(lines)


def _rows(rows: Sequence[FitRow], paint: Paint) -> list[str]:
    # Painted after layout: escape codes have a length that columns must not see.
    lines = table(_aligned([_HEAD, *(_cells(r) for r in rows)]), width=200)
    styles: list[Style] = ["faint", *("good" if r.fits else "bad" for r in rows)]
    return [_paint_mark(line.rstrip(), style, paint) for line, style in zip(lines, styles, strict=True)]


def _aligned(cells: Sequence[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """Return the cells with numbers flush right."""
    widths = [max(len(row[c]) for row in cells) for c in range(len(_HEAD))]
    return [tuple(t.rjust(widths[c]) if c in _NUMBERS else t for c, t in enumerate(row)) for row in cells]


def _cells(row: FitRow) -> tuple[str, ...]:
    sign = "+" if row.over_bytes >= 0 else "−"
    return (
        "fits" if row.fits else "no",
        row.hardware,
        gb(row.total_bytes),
        f"{sign}{gb(abs(row.over_bytes))}",
        gb(row.weights_per_gpu_bytes),
        gb(row.kv_bytes) if row.fits else "",
        row.layout,
    )


def _paint_mark(line: str, style: Style, paint: Paint) -> str:
    mark = line[:6].rstrip()
    return f"{paint(mark, style)}{line[len(mark) :]}" if mark.strip() else paint(line, style)
