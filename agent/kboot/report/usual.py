"""How long do an engine's phases usually take on this node, and how does a boot stand against that?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from statistics import median
from typing import TYPE_CHECKING

from kboot.values import dataclass

if TYPE_CHECKING:
    from kboot.engines.logs import Standing
    from kboot.report.types import BootReport

_SLOW_TIMES = 3.0
_SLOW_S = 60.0


@dataclass(frozen=True, slots=True)
class Usual:
    """seconds: the median. boots: how many it is over."""

    seconds: float
    boots: int

    @property
    def words(self) -> str:
        """ "usually 44 s (median of 7 boots)"."""
        return f"usually {self.seconds:.0f} s (median of {self.boots} boot{'' if self.boots == 1 else 's'})"


def usual_phases(reports: Iterable[BootReport], profile: str) -> Mapping[str, Usual]:
    """Return the engine's phases of earlier boots of a profile that reached ready, by name."""
    found: dict[str, list[float]] = {}
    for report in reports:
        if report.profile == profile and report.ready_unix_s is not None:
            for span in report.spans:
                if span.lane == "engine" and span.status == "done":
                    found.setdefault(span.name, []).append(span.seconds)
    return {name: Usual(median(times), len(times)) for name, times in sorted(found.items())}


def is_slow(stands: Standing, usual: Usual | None) -> bool:
    """Return whether a phase takes so much longer than usual that somebody should be told."""
    return usual is not None and stands.seconds > max(_SLOW_TIMES * usual.seconds, usual.seconds + _SLOW_S)


def standing_words(stands: Standing, usual: Usual | None) -> str:
    """ "at load model for 312 s, usually 44 s (median of 7 boots); its log is silent for 290 s"."""
    where = f"at {stands.phase} for {stands.seconds:.0f} s" if stands.phase else "between two phases that its log names"
    known = f", {usual.words}" if usual else ""
    quiet = f"; its log is silent for {stands.quiet_s:.0f} s" if stands.is_quiet else ""
    return f"{where}{known}{quiet}"
