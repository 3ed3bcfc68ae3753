"""Has each NUMA node memory for the workers that are bound to it?"""

from __future__ import annotations

from collections import Counter

from kboot.checkpoint import CheckpointFacts
from kboot.checks.asked import gap_reason, gpus_for, layout_for
from kboot.checks.fit_ram import ENGINE_BYTES_PER_WORKER
from kboot.checks.types import ON_A_NODE, Check, Finding
from kboot.checks.words import count, some
from kboot.facts.types import NodeFacts, NumaNode
from kboot.profile.types import Profile
from kboot.quantities import show_memory


def run(facts: NodeFacts, profile: Profile | None, checkpoint: CheckpointFacts | None) -> Finding:
    """Compare what the workers of a node's GPUs need with its free memory and its page cache, which makes room."""
    if not facts.numa:
        return Finding("unknown", f"the NUMA nodes could not be read ({gap_reason(facts, 'numa')})")
    if sum(1 for node in facts.numa if node.cpus) < 2:
        return Finding("ok", "one node holds all CPUs: fit.ram speaks for it")
    layout = layout_for(facts.gpu, profile) if profile else None
    gpus = gpus_for(facts.gpu, layout)[: layout.gpus_per_node] if layout else facts.gpu.gpus
    workers = Counter(gpu.numa_node for gpu in gpus)
    homes = [node for node in facts.numa if node.number in workers and node.cpus]
    if not homes:
        return Finding("skip", "no worker is bound to a node (no GPU, or none says where it is)")
    unread = [node.number for node in homes if node.memory_free_bytes is None]
    if unread:
        return Finding("unknown", f"free memory of node {some(unread)} could not be read ({gap_reason(facts, 'numa')})")
    short = [n for n in homes if _room(n) < workers[n.number] * ENGINE_BYTES_PER_WORKER]
    seen = some(
        f"node {n.number}: {show_memory(_room(n))} for {count(workers[n.number], 'worker')}" for n in short or homes
    )
    if not short:
        return Finding("ok", seen)
    need = max(workers[n.number] for n in short) * ENGINE_BYTES_PER_WORKER
    huge = "; huge pages hold the rest" if facts.memory.hugepages_bytes else ""
    return Finding(
        "warn",
        f"{seen}{huge}",
        wanted=f"{show_memory(need)} free or in page cache on each",
        why="staging memory comes from the far socket, and copies to the GPU slow down; a strict bind ends it",
        hint="`numastat -m` shows what fills the node; give huge pages back, or move the process that fills it",
    )


def _room(node: NumaNode) -> int:
    return (node.memory_free_bytes or 0) + (node.memory_files_bytes or 0)


CHECK = Check(
    id="numa.free",
    asks="Has each NUMA node memory for the workers that are bound to it?",
    source="/sys/devices/system/node/node*/meminfo",
    modes=ON_A_NODE,
    run=run,
)
