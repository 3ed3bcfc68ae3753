"""May an engine map as much as it does?"""

from __future__ import annotations

from kboot.checkpoint import CheckpointFacts
from kboot.checks.fixes import WriteValue
from kboot.checks.types import ON_A_NODE, Check, Finding
from kboot.facts.types import NodeFacts
from kboot.profile.types import Profile

DEFAULT_MAPS = 65530
WANTED_MAPS = 262144
MAPS = "/proc/sys/vm/max_map_count"


def run(facts: NodeFacts, profile: Profile | None, checkpoint: CheckpointFacts | None) -> Finding:
    """Engines map whole checkpoints and reserve address space far above memory."""
    system = facts.system
    if system.overcommit is None or system.max_map_count is None:
        return Finding("skip", "this machine does not tell its mapping rules")
    seen = f"overcommit_memory {system.overcommit}, max_map_count {system.max_map_count:,}"
    if system.overcommit != 2 and system.max_map_count >= DEFAULT_MAPS:
        return Finding("ok", seen)
    few = system.max_map_count < DEFAULT_MAPS
    return Finding(
        "warn",
        seen,
        wanted=f"overcommit_memory 0 or 1, max_map_count {DEFAULT_MAPS:,} or more",
        why="CUDA and mapped shards reserve far more address space than memory: 'Cannot allocate memory' with RAM free",
        hint="`sysctl vm.overcommit_memory=0 vm.max_map_count=262144`, and the same in /etc/sysctl.d",
        fixes=(WriteValue(MAPS, str(WANTED_MAPS), str(system.max_map_count)),) if few else (),
    )


CHECK = Check(
    id="mem.overcommit",
    asks="May an engine map as much as it does?",
    source="/proc/sys/vm/{overcommit_memory,max_map_count}",
    modes=ON_A_NODE,
    run=run,
)
