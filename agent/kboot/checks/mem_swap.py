"""Is memory of running programs out on swap?"""

from __future__ import annotations

from kboot.checkpoint import CheckpointFacts
from kboot.checks.asked import gap_reason
from kboot.checks.types import ON_A_NODE, Check, Finding
from kboot.facts.types import NodeFacts
from kboot.profile.types import Profile
from kboot.quantities import show_memory

NOTABLE_BYTES = 64 << 20


def run(facts: NodeFacts, profile: Profile | None, checkpoint: CheckpointFacts | None) -> Finding:
    """Swap that exists is no finding, swap in use is."""
    if facts.memory.total_bytes <= 0:
        return Finding("unknown", f"/proc/meminfo could not be read ({gap_reason(facts, 'memory')})")
    used = facts.memory.swap_used_bytes
    if used < NOTABLE_BYTES:
        return Finding("ok", f"{show_memory(used)} of swap in use" if used else "no swap in use")
    return Finding(
        "warn",
        f"{show_memory(used)} of swap in use",
        wanted=f"less than {show_memory(NOTABLE_BYTES)}",
        why="memory was short since boot; pages of the engine that come back from swap stall its loop",
        hint="`swapoff -a` once there is room, and `vm.swappiness=1` in /etc/sysctl.d",
    )


CHECK = Check(
    id="mem.swap",
    asks="Is memory of running programs out on swap?",
    source="/proc/meminfo",
    modes=ON_A_NODE,
    run=run,
)
