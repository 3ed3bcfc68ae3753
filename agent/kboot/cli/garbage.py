"""When does Python look for cycles of objects that nobody uses? Hardly while modules load, often enough afterwards."""

from __future__ import annotations

import gc

_STARTING, _WORKING = 100_000, 10_000
"""New objects between two looks. A start makes 50,000 that stay: with Python's own 700 looking at them again and again
is a tenth of its CPU time, with 10,000 still 4 %."""


def while_starting() -> None:
    """From now on look seldom: what is made is modules and types."""
    gc.set_threshold(_STARTING)


def while_working() -> None:
    """From now on look as often as memory needs it, and no more at what the start has made."""
    gc.freeze()
    gc.set_threshold(_WORKING)


def while_ending() -> None:
    """From now on look at nothing that there is: it goes with the process.

    Python would look at all of it again and again while it ends, a tenth of the CPU time of a command that only starts.
    """
    gc.freeze()
