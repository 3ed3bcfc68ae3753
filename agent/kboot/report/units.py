"""How are a moment and a long text written for a person?"""

from __future__ import annotations

from datetime import UTC, datetime


def show_time(unix_s: float) -> str:
    """Return the time in UTC: "2026-11-30 06:12:09Z"."""
    return datetime.fromtimestamp(unix_s, UTC).strftime("%Y-%m-%d %H:%M:%SZ")


def shorten(text: str, width: int) -> str:
    """Return text of at most `width` characters; what is cut out of the middle is marked."""
    if len(text) <= width:
        return text
    if width < 4:
        return text[:width]
    head = (width - 1) // 2
    return f"{text[:head]}…{text[len(text) - (width - 1 - head) :]}"
