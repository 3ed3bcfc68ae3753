"""Does the scheduler spread threads over all CPUs kboot may use?"""

from __future__ import annotations

from kboot.checkpoint import CheckpointFacts
from kboot.checks.asked import gap_reason
from kboot.checks.types import ON_A_NODE, Check, Finding
from kboot.checks.words import count, ranges
from kboot.facts.types import NodeFacts
from kboot.profile.types import Profile


def run(facts: NodeFacts, profile: Profile | None, checkpoint: CheckpointFacts | None) -> Finding:
    """Name isolated CPUs; threads of a worker placed on them are never moved off the first one."""
    if not facts.cpu.online:
        return Finding("unknown", f"the CPUs could not be read ({gap_reason(facts, 'cpu')})")
    isolated = sorted(set(facts.cpu.isolated) & set(facts.cpu.online))
    if not isolated:
        return Finding("ok", f"none of {count(len(facts.cpu.online), 'CPU')} is isolated")
    return Finding(
        "warn",
        f"{count(len(isolated), 'CPU')} ({ranges(isolated)}) isolated from the scheduler",
        wanted="none, unless it was measured to help",
        why="all threads of a worker on isolated CPUs pile up on the first one",
        hint="remove isolcpus= (and nohz_full=) from the kernel command line and reboot",
    )


CHECK = Check(
    id="cpu.isolcpus",
    asks="Does the scheduler spread threads over all CPUs kboot may use?",
    source="/sys/devices/system/cpu/isolated",
    modes=ON_A_NODE,
    run=run,
)
