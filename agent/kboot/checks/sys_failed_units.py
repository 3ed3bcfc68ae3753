"""Did systemd give up a service that a boot needs?"""

from __future__ import annotations

import re

from kboot.checkpoint import CheckpointFacts
from kboot.checks.asked import gap_reason, unread
from kboot.checks.types import ON_A_NODE, Check, Finding
from kboot.checks.words import some
from kboot.facts.types import NodeFacts
from kboot.profile.types import Profile

NEEDED = re.compile(
    r"^(?:nvidia-(?:persistenced|fabricmanager|imex|mig|cdi|nvlsm)|nvidia-dcgm|dcgm|kboot|openibd|mdmonitor)"
    r"|^(?:chrony|chronyd|ntpd|ntpsec|systemd-timesyncd)\."
    r"|^(?!snap-).*\.mount$"
)


def run(facts: NodeFacts, profile: Profile | None, checkpoint: CheckpointFacts | None) -> Finding:
    """Most failed units do not matter here; those of drivers, mounts and kboot do."""
    services = facts.upkeep.services
    if services is None:
        if unread(facts, "upkeep", "upkeep.services"):
            return Finding("unknown", f"systemd does not answer ({gap_reason(facts, 'upkeep.services', 'upkeep')})")
        return Finding("skip", "systemd does not run this machine")
    needed = [unit for unit in services.failed if NEEDED.search(unit) and not _without_switches(unit, facts)]
    if needed:
        return Finding(
            "warn",
            f"failed: {some(needed)}",
            wanted="none of the units that a boot needs",
            why="; ".join(sorted({_why(unit) for unit in needed})),
            hint=f"`systemctl status {needed[0]}`, then `systemctl restart {needed[0]}`",
        )
    others = f"; others failed: {some(services.failed)}" if services.failed else ""
    return Finding("ok", f"no unit failed that a boot needs{others}")


def _without_switches(unit: str, facts: NodeFacts) -> bool:
    """Return whether it is the fabric manager, which ends at once where there is nothing to manage."""
    manager = facts.health.fabric_manager
    alone = manager is not None and not manager.switches and not facts.health.fabrics
    return alone and unit.startswith("nvidia-fabricmanager")


def _why(unit: str) -> str:
    if unit.endswith(".mount"):
        return "what is kept on that disk is fetched again, onto another one"
    if unit.startswith("nvidia-fabricmanager"):
        return "GPUs with NVSwitch stay at CUDA error 802"
    if unit.startswith("nvidia"):
        return "GPUs are slow to answer, or not reached at all"
    return "part of the boot does not happen"


CHECK = Check(
    id="sys.failed_units",
    asks="Did systemd give up a service that a boot needs?",
    source="systemctl list-units --failed",
    modes=ON_A_NODE,
    run=run,
)
