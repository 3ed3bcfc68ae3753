"""Is memory set aside as huge pages that nobody asked for?"""

from __future__ import annotations

from kboot.checkpoint import CheckpointFacts
from kboot.checks.asked import gap_reason
from kboot.checks.types import ON_A_NODE, Check, Finding
from kboot.checks.words import percent
from kboot.facts.types import NodeFacts
from kboot.profile.types import Profile
from kboot.quantities import show_memory

NOTABLE_FRACTION = 0.05


def run(facts: NodeFacts, profile: Profile | None, checkpoint: CheckpointFacts | None) -> Finding:
    """Show the pool beside what is available: engines and the page cache cannot use it unless they ask for it."""
    memory = facts.memory
    if memory.total_bytes <= 0:
        return Finding("unknown", f"/proc/meminfo could not be read ({gap_reason(facts, 'memory')})")
    pool = memory.hugepages_bytes
    if not pool:
        return Finding("ok", "no huge pages are reserved")
    available = show_memory(memory.available_bytes)
    seen = f"{show_memory(pool)} of {show_memory(memory.total_bytes)} reserved as huge pages, {available} available"
    if profile is not None and any("hugepages" in path for path in profile.tune.settings):
        return Finding("ok", f"{seen}; the profile asks for them")
    if pool < NOTABLE_FRACTION * memory.total_bytes:
        return Finding("ok", seen)
    return Finding(
        "warn",
        seen,
        wanted=f"less than {percent(NOTABLE_FRACTION)} reserved, or a profile that asks for them ([tune] nr_hugepages)",
        why="that memory serves neither the engine nor the page cache, so less of the checkpoint stays warm",
        hint="`sysctl vm.nr_hugepages=0`, and remove hugepages= from /etc/sysctl.d or the kernel command line",
    )


CHECK = Check(
    id="mem.hugepages",
    asks="Is memory set aside as huge pages that nobody asked for?",
    source="/proc/meminfo",
    modes=ON_A_NODE,
    run=run,
)
