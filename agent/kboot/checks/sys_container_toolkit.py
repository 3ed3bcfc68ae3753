"""Do container runtimes mount the driver that is loaded?"""

from __future__ import annotations

from kboot.checkpoint import CheckpointFacts
from kboot.checks.asked import gap_reason
from kboot.checks.types import ON_A_NODE, Check, Finding
from kboot.facts.types import NodeFacts
from kboot.profile.types import Profile


def run(facts: NodeFacts, profile: Profile | None, checkpoint: CheckpointFacts | None) -> Finding:
    """A CDI file names the driver's libraries by version; after an upgrade it names files that are gone."""
    specs = facts.upkeep.cdi
    if not specs:
        return Finding("skip", "no CDI file names a driver: containers get GPUs otherwise, or none run here")
    driver = facts.gpu.driver_version
    if driver is None:
        return Finding(
            "unknown", f"the driver's version is not known ({gap_reason(facts, 'gpu.driver_version', 'gpu')})"
        )
    old = [spec for spec in specs if spec.driver != driver]
    if not old:
        return Finding("ok", f"{specs[0].path} is for driver {driver}")
    return Finding(
        "warn",
        f"{old[0].path} is for driver {old[0].driver}, loaded is {driver}",
        wanted=f"libraries of {driver}",
        why="containers start without GPUs, or end with 'no such file or directory'",
        hint=f"`nvidia-ctk cdi generate --output={old[0].path}` after each upgrade of the driver",
    )


CHECK = Check(
    id="sys.container_toolkit",
    asks="Do container runtimes mount the driver that is loaded?",
    source="/etc/cdi/*, /var/run/cdi/*; NVML",
    modes=ON_A_NODE,
    run=run,
)
