"""Does the kernel leave pages where they are?"""

from __future__ import annotations

from kboot.checkpoint import CheckpointFacts
from kboot.checks.fixes import WriteValue
from kboot.checks.types import ON_A_NODE, Check, Finding
from kboot.checks.words import count
from kboot.facts.types import NodeFacts
from kboot.profile.types import Profile


def run(facts: NodeFacts, profile: Profile | None, checkpoint: CheckpointFacts | None) -> Finding:
    """Moving pages between sockets costs the pinned workers faults and helps nobody who is bound."""
    nodes = [n for n in facts.numa if n.cpus]
    if facts.system.numa_balancing is None:
        return Finding("skip", "this kernel does not balance pages between NUMA nodes")
    if not facts.system.numa_balancing or len(nodes) < 2:
        return Finding("ok", f"numa_balancing {facts.system.numa_balancing}, {count(len(nodes), 'node')} with CPUs")
    return Finding(
        "warn",
        f"numa_balancing {facts.system.numa_balancing} with {len(nodes)} NUMA nodes",
        wanted="0",
        why="the kernel unmaps pages of bound workers to see who uses them: extra faults, spikes in latency",
        hint='`sysctl kernel.numa_balancing=0`, or [tune.settings] "/proc/sys/kernel/numa_balancing" = "0"',
        fixes=(WriteValue("/proc/sys/kernel/numa_balancing", "0", str(facts.system.numa_balancing)),),
    )


CHECK = Check(
    id="numa.balance",
    asks="Does the kernel leave pages where they are?",
    source="/proc/sys/kernel/numa_balancing",
    modes=ON_A_NODE,
    run=run,
)
