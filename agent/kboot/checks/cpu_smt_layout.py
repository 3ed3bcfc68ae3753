"""Is it known which CPUs share a core, and are cores given whole?"""

from __future__ import annotations

from collections import Counter

from kboot.checkpoint import CheckpointFacts
from kboot.checks.asked import gap_reason
from kboot.checks.types import ON_A_NODE, Check, Finding
from kboot.checks.words import count, ranges
from kboot.facts.types import NodeFacts
from kboot.profile.types import Profile


def run(facts: NodeFacts, profile: Profile | None, checkpoint: CheckpointFacts | None) -> Finding:
    """Threads are planned by physical cores, so siblings must be known; a half core is shared with somebody else."""
    cpu = facts.cpu
    if not cpu.online or not cpu.allowed:
        return Finding("unknown", f"the CPUs could not be read ({gap_reason(facts, 'cpu')})")
    if not cpu.core_of:
        if any(gap.fact.startswith("cpu.core_of") for gap in facts.gaps):
            return Finding("unknown", f"which CPUs share a core is not readable ({gap_reason(facts, 'cpu.core_of')})")
        return Finding("skip", "this machine does not tell which CPUs share a core")
    threads_of = Counter(cpu.core_of[n] for n in cpu.online if n in cpu.core_of)
    mine_of = Counter(cpu.core_of[n] for n in cpu.allowed if n in cpu.core_of)
    split = [core for core, mine in mine_of.items() if mine < threads_of[core]]
    most = max(threads_of.values(), default=1)
    seen = f"{count(len(cpu.allowed), 'CPU')} on {count(len(mine_of), 'core')}, {count(most, 'thread')} each"
    if not split:
        return Finding("ok", seen)
    halves = ranges(n for n in cpu.allowed if cpu.core_of.get(n) in set(split))
    return Finding(
        "warn",
        f"{seen}; of {count(len(split), 'core')} only some threads may be used here (CPUs {halves})",
        wanted="whole cores in the cpuset",
        why="somebody else's work runs on the same cores, and workers wait for it",
        hint="give the service or container both siblings of each core "
        "(/sys/devices/system/cpu/cpu*/topology/thread_siblings_list)",
    )


CHECK = Check(
    id="cpu.smt_layout",
    asks="Is it known which CPUs share a core, and are cores given whole?",
    source="/sys/devices/system/cpu/cpu*/topology/thread_siblings_list; affinity and cpuset of this process",
    modes=ON_A_NODE,
    run=run,
)
