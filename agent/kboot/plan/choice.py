"""Which phases are left out, as --only and --skip ask?"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from kboot.plan.types import Phase, PhaseName


def choose(phases: Iterable[Phase], only: Collection[PhaseName], skip: Collection[PhaseName]) -> tuple[Phase, ...]:
    """Return the phases, those left out by --only or --skip emptied."""
    return tuple(_left_out(p, only, skip) for p in phases)


def _left_out(phase: Phase, only: Collection[PhaseName], skip: Collection[PhaseName]) -> Phase:
    if phase.name in skip:
        return replace(phase, actions=(), note="left out by --skip")
    if only and phase.name not in only:
        return replace(phase, actions=(), note="left out by --only")
    return phase
