"""Units are enabled by links, as systemctl would."""

from __future__ import annotations

from kboot.facts.boot_units import UnitFile
from kboot.plan.units import EnableUnit, plan_units

LINK = "etc/systemd/system/multi-user.target.wants/a.service"


def test_only_links_that_are_missing_are_made() -> None:
    """A unit that is enabled is left as it is."""
    actions, left = plan_units(
        [
            UnitFile("a.service", "usr/lib/systemd/system", ((LINK, False),)),
            UnitFile("b.service", "usr/lib/systemd/system", (("etc/x/b.service", True),)),
        ]
    )
    why = "started at every boot, as its [Install] section says"

    assert (EnableUnit("a.service", (LINK,), "/usr/lib/systemd/system/a.service", why),) == actions
    assert () == left


def test_what_is_not_there_or_forbidden_is_told() -> None:
    """An image without unit files starts kboot by other means; a mask is an operator's word."""
    actions, left = plan_units(
        [UnitFile("a.service", ""), UnitFile("b.timer", ""), UnitFile("c.service", "etc/systemd/system", masked=True)]
    )

    assert () == actions
    assert ["a.service, b.timer", "c.service"] == [names for names, _ in left]
