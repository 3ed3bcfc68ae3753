"""Is /dev/shm large enough for the messages between GPU workers?"""

from __future__ import annotations

from kboot.checkpoint import CheckpointFacts
from kboot.checks.asked import gap_reason, layout_for, serving_pids, workers
from kboot.checks.types import ON_A_NODE, Check, Finding
from kboot.facts.types import NodeFacts
from kboot.profile.types import Profile
from kboot.quantities import show_memory

BYTES_PER_WORKER = 64 << 20
"""NCCL and the engines' broadcast queues together stay below this for each worker on a node."""


def run(facts: NodeFacts, profile: Profile | None, checkpoint: CheckpointFacts | None) -> Finding:
    """Compare free space in /dev/shm with 64 MiB for each worker; one worker alone shares nothing."""
    workers_here = _workers(facts, profile)
    if workers_here == 1:
        return Finding("skip", "one worker shares nothing through /dev/shm")
    total, free = facts.memory.shm_total_bytes, facts.memory.shm_free_bytes
    need = workers_here * BYTES_PER_WORKER
    if total is None or (free is None and total >= need):
        return Finding("unknown", f"/dev/shm could not be measured ({gap_reason(facts, 'memory.shm')})")
    seen = f"{show_memory(total if free is None else free)} of {show_memory(total)} free in /dev/shm"
    if serving_pids(facts):
        return Finding("ok", f"{seen}, beside the engine that serves")
    if free is not None and free >= need:
        return Finding("ok", f"{seen}; {workers_here} workers need {show_memory(need)}")
    return Finding(
        "fail",
        f"{seen}; {workers_here} workers need {show_memory(need)} ({show_memory(BYTES_PER_WORKER)} each)",
        wanted=f"{show_memory(need)} free",
        why="NCCL cannot make its segments, and the engine dies at its first collective",
        hint=f"container: `--shm-size={need >> 20}m` or `--ipc=host`; "
        f"host: `mount -o remount,size={need >> 20}m /dev/shm`",
    )


def _workers(facts: NodeFacts, profile: Profile | None) -> int:
    """Return the workers here: of the layout for these GPUs, of the one preferred where none is listed, else of all."""
    if profile is None:
        return max(1, len(facts.gpu.gpus))
    return workers(layout_for(facts.gpu, profile) or profile.layout[0])


CHECK = Check(
    id="fit.shm",
    asks="Is /dev/shm large enough for the messages between GPU workers?",
    source="statvfs of /dev/shm",
    modes=ON_A_NODE,
    run=run,
)
