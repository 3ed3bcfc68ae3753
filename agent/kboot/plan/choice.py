"""Which phases are left out, as --only and --skip ask?"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from kboot.plan.types import Phase, PhaseName


_LEFT_OUT = "left out by "


def is_left_out(phase: Phase) -> bool:
    """Return whether the phase has no actions because that was asked for."""
    return not phase.actions and phase.note.startswith(_LEFT_OUT)


def choose(phases: Iterable[Phase], only: Collection[PhaseName], skip: Collection[PhaseName]) -> tuple[Phase, ...]:
    """Return the phases, those left out by --only or --skip emptied."""
    return tuple(_left_out(p, only, skip) for p in phases)


def _left_out(phase: Phase, only: Collection[PhaseName], skip: Collection[PhaseName]) -> Phase:
    if phase.name in skip:
        return replace(phase, actions=(), note=f"{_LEFT_OUT}--skip")
    if only and phase.name not in only:
        return replace(phase, actions=(), note=f"{_LEFT_OUT}--only")
    return phase
