"""May the engine lock the memory it pins for GPU transfers and RDMA?"""

from __future__ import annotations

from kboot.checkpoint import CheckpointFacts
from kboot.checks.asked import gap_reason, layout_for, unread
from kboot.checks.types import ON_A_NODE, Check, Finding
from kboot.facts.types import NodeFacts
from kboot.profile.types import Profile
from kboot.quantities import show_memory


def run(facts: NodeFacts, profile: Profile | None, checkpoint: CheckpointFacts | None) -> Finding:
    """Unlimited, or as much as the memory there is. RDMA between nodes does not start with less."""
    if not facts.gpu.gpus and not facts.gpu.pci_bus_ids:
        return Finding("skip", "without a GPU nothing pins memory")
    if unread(facts, "limits", "limits.memlock"):
        return Finding("unknown", f"the limit could not be read ({gap_reason(facts, 'limits.memlock', 'limits')})")
    soft, hard = facts.limits.memlock_bytes
    if soft is None:
        return Finding("ok", "unlimited")
    most = "unlimited" if hard is None else show_memory(hard)
    limits = f"soft limit {show_memory(soft)}, hard limit {most} of locked memory"
    if facts.memory.total_bytes and soft >= facts.memory.total_bytes:
        return Finding("ok", f"{limits}, as much as there is")
    layout = layout_for(facts.gpu, profile) if profile else None
    several = layout is not None and layout.nodes > 1
    return Finding(
        "fail" if several else "warn",
        f"{limits}, unlimited wanted"
        + (f"; layout {layout.name} spans {layout.nodes} nodes" if several and layout else ""),
        wanted="unlimited",
        why="RDMA between nodes cannot register memory" if several else "pinned staging and RDMA registration may fail",
        hint="LimitMEMLOCK=infinity in the unit (limits.conf reaches no service); container: `--ulimit memlock=-1`",
    )


CHECK = Check(
    id="limits.memlock",
    asks="May the engine lock the memory it pins for GPU transfers and RDMA?",
    source="/proc/self/limits",
    modes=ON_A_NODE,
    run=run,
)
