"""Which kernel settings differ from what the profile asks for?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kboot.plan.types import WriteSetting

if TYPE_CHECKING:
    from kboot.facts.types import NodeFacts
    from kboot.profile.types import Profile


def plan_tune(facts: NodeFacts, profile: Profile) -> tuple[WriteSetting, ...]:
    """Return one write per setting whose value is not the wanted one; () for a node that is right."""
    governor = profile.cpu.governor
    writes = [
        WriteSetting(
            path=governor_path(cpu),
            value=governor,
            before=now,
            reason=f"profile {profile.name} asks for governor {governor}",
        )
        for cpu, now in sorted(facts.cpu.governor_of.items())
        if governor and now != governor
    ]
    for path, wanted in sorted(profile.tune.settings.items()):
        now_value = facts.tune.value_of.get(path)
        if now_value is not None and selected(now_value) != wanted:
            writes.append(WriteSetting(path, wanted, selected(now_value), f"profile {profile.name} asks for it"))
    return tuple(writes)


def governor_path(cpu: int) -> str:
    """Return the sysfs file of a CPU's cpufreq governor."""
    return f"/sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_governor"


def selected(value: str) -> str:
    """Return the chosen word of a sysfs choice ("always [madvise] never" → "madvise"), other values as they are."""
    start, end = value.find("["), value.find("]")
    return value[start + 1 : end] if 0 <= start < end else value
