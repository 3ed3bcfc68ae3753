"""How does a result read on a terminal? Layout that every text renderer shares. Pure."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from kboot.errors import KbootError

WIDTH = 80
"""Columns a text is laid out for when nothing says more; no line of kboot's own words is longer."""
_NARROWEST, _WIDEST = 40, 120  # below, columns of a table have no room; above, lines are hard to follow
_columns: ContextVar[int] = ContextVar("columns", default=WIDTH)

Style = Literal["strong", "faint", "good", "warn", "bad"]
Paint = Callable[[str, Style], str]
"""Colours a piece of text after it has been laid out; must not change what is visible of it."""


def no_paint(text: str, style: Style) -> str:  # noqa: ARG001  (the signature is Paint's)
    """Leave the text as it is."""
    return text


@contextmanager
def laid_out_for(columns: int) -> Iterator[None]:
    """Lay out for a reader's columns what the block renders, where a call does not say for how many."""
    token = _columns.set(max(_NARROWEST, min(columns, _WIDEST)))
    try:
        yield
    finally:
        _columns.reset(token)


def width_now() -> int:
    """Return the columns to lay out for: WIDTH, or what laid_out_for said."""
    return _columns.get()


def table(rows: Iterable[Sequence[str]], indent: int = 2, width: int | None = None) -> list[str]:
    """Return rows in aligned columns; the last column wraps under itself at `width`, width_now() if None."""
    cells = [list(r) for r in rows]
    if not cells:
        return []
    columns = max(len(r) for r in cells)
    cells = [r + [""] * (columns - len(r)) for r in cells]
    widths = [max(len(r[c]) for r in cells) for c in range(columns - 1)]
    lines = []
    for row in cells:
        head = "".join(f"{text:<{size}}  " for text, size in zip(row, widths, strict=False))
        lines += wrap(row[-1], " " * indent + head, width)
    return lines


def wrap(text: str, head: str = "", width: int | None = None, *, whole: bool = False) -> list[str]:
    """Return text broken at blanks to `width`, the first line after `head`, the others under its end.

    width: None is width_now(). A word too long for that (a path, a URL, a key) goes on a line of its own, nearer to the
    left, if it fits there; longer ones are broken, so that a terminal does not break them at its edge. whole: none is,
    it is to be copied.
    """
    width = width or width_now()
    indent = len(head) if len(head) <= width * 2 // 3 else 6
    longest = max(map(len, text.split()), default=0)
    if head.strip() and indent > 6 and width - indent < longest <= width - 6:
        return [head.rstrip(), *wrap(text, " " * 6, width, whole=whole)]
    if len(head) > width * 2 // 3 and len(head) + len(text) > width:
        return [head.rstrip(), *wrap(text, " " * indent, width, whole=whole)]
    lines = textwrap.wrap(
        text,
        width,
        initial_indent=head,
        subsequent_indent=" " * indent,
        break_long_words=not whole,
        break_on_hyphens=False,
    )
    return [line.rstrip() for line in lines] or [head.rstrip()]


def join(lines: Iterable[str]) -> str:
    """Return lines as one text, without blank lines at its ends."""
    return "\n".join(lines).strip("\n")


def error_text(error: KbootError, paint: Paint = no_paint) -> str:
    """Return an error as it is printed: code, what was seen and wanted, where, and what to do next."""
    lines = [f"{paint('error:', 'bad')} {paint(error.code, 'strong')}"]
    lines += wrap(error.message, "  ", whole=True)
    for place in error.where:
        lines += wrap(place, "  ", whole=True)  # a path is to be copied
    if error.hint:
        lines += wrap(error.hint, "hint: ", whole=True)
    return join(lines)


def shorten(text: str, width: int) -> str:
    """Return text of at most `width` characters; what is cut out of the middle is marked."""
    if len(text) <= width:
        return text
    if width < 4:
        return text[:width]
    head = (width - 1) // 2
    return f"{text[:head]}…{text[len(text) - (width - 1 - head) :]}"
