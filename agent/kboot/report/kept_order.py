"""In which order are records read whose names begin with the moment of their run? Clocks are wrong at times."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime


def moment_name(unix_s: float) -> str:
    """Return a moment as the names of records begin with it."""
    return datetime.fromtimestamp(unix_s, UTC).strftime("%Y%m%dT%H%M%S.%f")


def newest_first(names: Iterable[str], now: str) -> list[str]:
    """Return the newest first; a moment that is still to come was a clock's error, and comes last.

    now: this moment, as names begin with it.
    """
    return sorted(names, key=lambda name: (name[: len(now)] <= now, name), reverse=True)
