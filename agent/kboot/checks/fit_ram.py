"""Is there host memory for the engine's processes, and for keeping the checkpoint warm?"""

from __future__ import annotations

from kboot.checkpoint import CheckpointFacts
from kboot.checks.asked import gap_reason, layout_for, serving_pids, workers
from kboot.checks.fit_vram import weight_bytes
from kboot.checks.types import ON_A_NODE, Check, Finding
from kboot.checks.words import count, percent
from kboot.facts.basic_types import MemoryFacts
from kboot.facts.types import NodeFacts
from kboot.profile.types import Profile
from kboot.quantities import show_file_in_memory, show_memory

ENGINE_BYTES_PER_WORKER = 4 << 30
"""Host memory one GPU worker needs with its share of front ends: 2.2 GiB + 1 GiB + 1 GiB (vLLM 0.26, 2x H200)."""


def run(facts: NodeFacts, profile: Profile | None, checkpoint: CheckpointFacts | None) -> Finding:
    """Compare available memory (within the cgroup's limit) with the engine's processes and the weights."""
    memory = facts.memory
    if memory.total_bytes <= 0 or memory.available_bytes <= 0:
        return Finding("unknown", f"free memory could not be read ({gap_reason(facts, 'memory')})")
    usable = memory.usable_bytes
    seen = _seen(memory)
    if profile is None:
        return Finding("ok", f"{seen}; no profile says how much is needed")
    if serving_pids(facts):
        return Finding("ok", f"{seen}, beside the engine that serves")
    layout = layout_for(facts.gpu, profile)
    if layout is not None and layout.gpus_per_node:
        need = workers(layout) * ENGINE_BYTES_PER_WORKER
        if usable < need:
            return _too_small(memory, seen, need, workers(layout))
    return _warmth(seen, usable, profile, checkpoint)


def _seen(memory: MemoryFacts) -> str:
    usable, limit = memory.usable_bytes, memory.limit_bytes
    seen = f"{show_memory(memory.available_bytes)} of {show_memory(memory.total_bytes)} available"
    if limit is not None and usable < min(limit, memory.available_bytes):
        seen += f", {show_memory(usable)} left of the {show_memory(limit)} that the cgroup may have"
    elif usable < memory.available_bytes:
        seen += f", limited to {show_memory(usable)} by the cgroup"
    if memory.hugepages_bytes:
        seen += f"; {show_memory(memory.hugepages_bytes)} are reserved as huge pages and not counted"
    return seen


def _too_small(memory: MemoryFacts, seen: str, need: int, count_of_workers: int) -> Finding:
    if memory.limit_bytes is not None and memory.limit_bytes < need:
        hint = "raise memory.max and memory.high of the service or container (`--memory`)"
    elif memory.usable_bytes < memory.available_bytes:
        hint = "stop what else runs in the cgroup and delete its files in memory (/dev/shm, emptyDir): both count"
    elif memory.hugepages_bytes:
        hint = "give huge pages back: `sysctl vm.nr_hugepages=0`, unless the engine uses them"
    else:
        hint = "stop what else uses memory: `ps -eo pid,rss,comm --sort=-rss | head`"
    return Finding(
        "fail",
        f"{seen}; {count(count_of_workers, 'worker')} need about {show_memory(need)}",
        wanted=f"{show_memory(need)} available",
        why="the kernel ends a worker while it loads",
        hint=hint,
    )


def _warmth(seen: str, usable: int, profile: Profile, checkpoint: CheckpointFacts | None) -> Finding:
    weights = weight_bytes(profile, checkpoint)
    if weights is None or not profile.warm.enabled:
        return Finding("ok", seen)
    room = int(usable * profile.warm.max_memory_fraction)
    if room < weights:
        return Finding(
            "warn",
            f"{seen}; the weights are {show_file_in_memory(weights)}, "
            f"so about {percent(max(0, room) / weights)} of them can stay warm",
            wanted=f"{show_memory(weights)} of page cache",
            why="the rest is read from disk while the engine loads",
            hint="nothing to do where the disk is fast; else more memory, or a layout over more nodes",
        )
    return Finding("ok", f"{seen}; the weights are {show_file_in_memory(weights)}")


CHECK = Check(
    id="fit.ram",
    asks="Is there host memory for the engine's processes, and for keeping the checkpoint warm?",
    source="/proc/meminfo; memory.{max,high,current,stat} on the cgroup path",
    modes=ON_A_NODE,
    run=run,
)
