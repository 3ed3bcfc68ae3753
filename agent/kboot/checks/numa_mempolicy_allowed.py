"""May memory be bound to a NUMA node?"""

from __future__ import annotations

from kboot.checkpoint import CheckpointFacts
from kboot.checks.asked import gap_reason
from kboot.checks.types import ON_A_NODE, Check, Finding
from kboot.facts.types import NodeFacts
from kboot.profile.types import Profile


def run(facts: NodeFacts, profile: Profile | None, checkpoint: CheckpointFacts | None) -> Finding:
    """CPU affinity may be allowed where this call is not: seccomp profiles of containers treat them apart."""
    if not facts.numa:
        return Finding("unknown", f"the NUMA nodes could not be read ({gap_reason(facts, 'numa')})")
    if sum(node.memory_total_bytes != 0 and node.memory_allowed for node in facts.numa) < 2:
        return Finding("ok", "one node holds all memory that may be used: there is nothing to bind")
    told = facts.asked.memory_policy
    if told is None:
        if any(gap.fact == "asked.memory_policy" for gap in facts.gaps):
            return Finding("unknown", f"it could not be tried ({gap_reason(facts, 'asked.memory_policy')})")
        return Finding("skip", "this recording does not tell whether set_mempolicy is allowed")
    if not told:
        return Finding("ok", "set_mempolicy is allowed, and kept what was set")
    return Finding(
        "warn",
        f"memory cannot be bound: {told}",
        wanted="set_mempolicy allowed",
        why="workers keep their CPUs, but their memory may come from the far socket: copies to the GPU slow down",
        hint="container: `--cap-add SYS_NICE`, or a seccomp profile with set_mempolicy, get_mempolicy and mbind",
    )


CHECK = Check(
    id="numa.mempolicy_allowed",
    asks="May memory be bound to a NUMA node?",
    source="set_mempolicy and get_mempolicy in a child process",
    modes=ON_A_NODE,
    run=run,
)
