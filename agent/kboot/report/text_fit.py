"""How does the answer to "does it fit?" read? Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kboot.plan.fit import FitReport, FitRow, why
from kboot.plan.memory.kv import KV_DTYPE, asked_tokens
from kboot.plan.memory.place import Placed
from kboot.plan.memory.ranks import flag_value
from kboot.quantities import show_gb
from kboot.report.render_text import Paint, Style, join, no_paint, table, width_now, wrap

_HEAD = ("", "hardware", "memory", "spare", "divided", "per GPU", "KV cache", "context", "layout")
_NUMBERS = frozenset({"memory", "spare", "per GPU", "KV cache", "context"})
_MEANINGS = {"spare": "memory of all GPUs beyond the weights", "per GPU": "weights on each"}
_OPTIONAL = frozenset({"divided", "context", "layout"})  # known from headers only; named by a profile only


def fit_text(report: FitReport, costs: Sequence[str] = (), *, paint: Paint = no_paint) -> str:
    """Return the table: what was asked first, then everything else; costs: one dated line each."""
    about = f" ({report.weights_from})" if report.weights_from else ""
    lines = wrap(f"{show_gb(report.weights_bytes)} of weights{about}")
    if report.asked:
        lines += ["", paint("asked", "strong"), *_rows(report.asked, paint)]
    others = [row for row in report.rows if row not in report.asked]
    if others:
        lines += ["", *([paint("also looked at", "strong")] if report.asked else []), *_rows(others, paint)]
    told = [row for row in report.asked or report.rows if row.layout or report.asked]
    for title, found in (("why", _sums(told)), ("KV cache", _caches(told)), ("costs", iter(costs))):
        texts = list(found)
        if texts:
            lines += ["", paint(title, "strong"), *(line for text in texts for line in wrap(text, "  "))]
    meant = [f"{head}: {what}" for head, what in _MEANINGS.items() if any(f" {head} " in line for line in lines)]
    lines += ["", *(wrap("; ".join(meant), "note  ") if meant else [])]
    reserve = ", ".join(f"{r.name} {show_gb(r.size_bytes)}" for r in report.reserves)
    lines += wrap(f"reserve per GPU: {reserve}", "note  ")
    shown = report.asked or report.rows
    for note in (*_counted(shown), *_limits(shown), *report.notes):
        lines += wrap(note, "note  ")
    return join(lines)


def row_name(row: FitRow) -> str:
    """Return what a line about a row begins with: "8x-b300 (DP8+EP)", "8x B300 (TP8+EP)"."""
    return f"{row.layout or row.hardware} ({row.way})" if row.way else row.layout or row.hardware


def _sums(rows: Sequence[FitRow]) -> Iterator[str]:
    for row in rows:
        if text := why(row):
            yield f"{row_name(row)}: {text}"


def _caches(rows: Sequence[FitRow]) -> Iterator[str]:
    for row in rows:
        placed = row.placed
        if placed is None or placed.kv is None or placed.room_bytes <= 0:
            continue
        kv = placed.kv
        state = f" and {kv.need.sequence_bytes:,} B a sequence" if kv.need.sequence_bytes else ""
        text = f"{row_name(row)}: {kv.need.token_bytes:,} B a token{state} on a GPU ({kv.why})"
        if kv.sequences is not None and kv.asked_tokens is not None:
            replicas = f" on each of {placed.degrees.data} replicas" if placed.degrees.data > 1 else ""
            text += f"; {kv.sequences:,} sequences of {kv.asked_tokens:,} tokens at once{replicas}"
        yield text


def _counted(rows: Sequence[FitRow]) -> Iterator[str]:
    """Name what engine, cache and length of sequences the rooms for the KV cache are counted for, and who says so."""
    layouts_of: dict[str, dict[str, None]] = {}
    for row in rows:
        if row.placed is not None:
            layouts_of.setdefault(_engine_words(row.placed), {})[row.placed.layout.name] = None
    for words, layouts in layouts_of.items():
        whose = f"as in layout {', '.join(layouts)}" if any(layouts) else "assumed, since no profile says otherwise"
        yield f"counted for {words}; {whose}"


def _engine_words(placed: Placed) -> str:
    """Return "vllm, KV cache of dtype auto, sequences of 4,096 tokens (the model's longest)"."""
    args, kv = placed.layout.args, placed.kv
    words = f"{placed.layout.engine}, KV cache of dtype {flag_value(args, *KV_DTYPE) or 'auto'}"
    if kv is None or kv.asked_tokens is None:
        return words
    whose = "" if asked_tokens(args) else " (the model's longest)"
    return f"{words}, sequences of {kv.asked_tokens:,} tokens{whose}"


def _limits(rows: Sequence[FitRow]) -> Iterator[str]:
    """Name what engines keep back beyond the reserve, once for each source."""
    seen: set[str] = set()
    for row in rows:
        for reserve in row.placed.reserves[3:] if row.placed else ():
            if reserve.source not in seen:
                seen.add(reserve.source)
                yield f"{reserve.name}: {show_gb(reserve.size_bytes)} of each {row.gpu} ({reserve.source})"


def _rows(rows: Sequence[FitRow], paint: Paint) -> list[str]:
    """Return a line a row; where that is too wide, layouts go below their rows, then columns are left out."""
    width = width_now()
    cells = [_HEAD, *(_cells(r) for r in rows)]
    kept = [c for c, name in enumerate(_HEAD) if name not in _OPTIONAL or any(row[c] for row in cells[1:])]
    lines, below = _lines(cells, kept), [""] * len(cells)
    if _widest(lines) > width:
        kept = [c for c in kept if _HEAD[c] != "layout"]
        lines, below = _lines(cells, kept), ["", *(row.layout for row in rows)]
    for dispensable in ("spare", "memory", "per GPU"):
        if _widest(lines) > width:
            kept = [c for c in kept if _HEAD[c] != dispensable]
            lines = _lines(cells, kept)
    # Painted after layout: escape codes have a length that columns must not see.
    styles: list[Style] = ["faint", *("good" if r.fits else "bad" for r in rows)]
    painted = []
    for line, layout, style in zip(lines, below, styles, strict=True):
        painted += [_paint_mark(line, style, paint), *([f"        {layout}"] if layout else [])]
    return painted


def _lines(cells: Sequence[Sequence[str]], kept: Sequence[int]) -> list[str]:
    return [line.rstrip() for line in table(_aligned([[row[c] for c in kept] for row in cells]), width=200)]


def _widest(lines: Sequence[str]) -> int:
    return max(map(len, lines))


def _aligned(cells: Sequence[Sequence[str]]) -> list[tuple[str, ...]]:
    """Return the cells with numbers flush right."""
    head = cells[0]
    widths = [max(len(row[c]) for row in cells) for c in range(len(head))]
    return [tuple(t.rjust(widths[c]) if head[c] in _NUMBERS else t for c, t in enumerate(row)) for row in cells]


def _cells(row: FitRow) -> tuple[str, ...]:
    sign = "+" if row.over_bytes >= 0 else "−"
    kv = row.placed.kv if row.placed else None
    return (
        "fits" if row.fits else "no",
        row.hardware,
        show_gb(row.total_bytes),
        f"{sign}{show_gb(abs(row.over_bytes))}",
        row.way,
        show_gb(row.weights_per_gpu_bytes),
        show_gb(row.kv_bytes) if row.fits else "",
        f"{kv.context_tokens:,}" if kv and row.fits else "",
        row.layout,
    )


def _paint_mark(line: str, style: Style, paint: Paint) -> str:
    mark = line[:6].rstrip()
    return f"{paint(mark, style)}{line[len(mark) :]}" if mark.strip() else paint(line, style)
