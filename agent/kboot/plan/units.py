"""What must be linked so that an image starts kboot at boot? By links alone: no systemd runs while an image is made."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kboot.values import dataclass

if TYPE_CHECKING:
    from kboot.facts.boot_units import UnitFile


@dataclass(frozen=True, slots=True)
class EnableUnit:
    """Make the links by which a unit is started. target: what they say."""

    name: str
    links: tuple[str, ...]
    target: str
    reason: str


def plan_units(units: Sequence[UnitFile]) -> tuple[tuple[EnableUnit, ...], tuple[tuple[str, str], ...]]:
    """Return what to link, and the units that are left out, each with why."""
    why = "started at every boot, as its [Install] section says"
    missing = [(unit, tuple(link for link, there in unit.links if not there)) for unit in units if not unit.masked]
    actions = tuple(
        EnableUnit(unit.name, links, f"/{unit.folder}/{unit.name}", why) for unit, links in missing if links
    )
    absent = ", ".join(unit.name for unit in units if not unit.folder)
    masked = ", ".join(unit.name for unit in units if unit.masked)
    left = ((absent, "no unit file is in the image: `install.sh` puts it there"), (masked, "masked by an operator"))
    return actions, tuple((names, reason) for names, reason in left if names)
