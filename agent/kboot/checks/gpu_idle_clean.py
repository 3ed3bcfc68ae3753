"""Are the GPUs empty before an engine starts?"""

from __future__ import annotations

from kboot.checkpoint import CheckpointFacts
from kboot.checks.asked import gap_reason, serving_pids, unread_below
from kboot.checks.gpu_devnodes import WSL
from kboot.checks.types import ON_A_NODE, Check, Finding
from kboot.checks.words import count, percent, some
from kboot.facts.types import Gpu, NodeFacts
from kboot.profile.types import Profile
from kboot.quantities import show_memory

IDLE_FRACTION = 0.02
"""What the driver itself may keep of a GPU with no process on it; 0.5 to 1.2 % is usual on 80 GB and larger parts."""


def run(facts: NodeFacts, profile: Profile | None, checkpoint: CheckpointFacts | None) -> Finding:
    """Name GPUs with processes, and GPUs whose memory is held although no process shows."""
    gpus = facts.gpu.gpus
    if not gpus:
        return Finding("skip", f"no GPU is listed (NVML: {facts.gpu.nvml})")
    ours = serving_pids(facts)
    busy = tuple(g for g in gpus if not ours.issuperset(g.processes))
    windows = WSL in (facts.health.device_nodes or ())  # whose own programs are on the GPU too
    held = tuple(g for g in gpus if not g.processes and _held(g) and not windows)
    if busy:
        return _processes(busy)
    if held:
        return _orphans(held)
    unread = tuple(g.index for g in gpus if g.memory_used_bytes is None and not g.unified)
    if unread:
        reason = gap_reason(facts, *(f"gpus.{i}" for i in unread))
        return Finding("unknown", f"used memory of GPU {some(unread)} could not be read ({reason})")
    unlisted = tuple(g.index for g in gpus if not g.processes and unread_below(facts, f"gpus.{g.index}.processes"))
    if unlisted:
        return Finding("unknown", f"processes on GPU {some(unlisted)} could not be listed")
    served = sum(bool(g.processes) for g in gpus)
    if served:
        return Finding("ok", f"{count(served, 'GPU')} with workers of the engine that serves, no other process")
    return Finding("ok", f"{count(len(gpus), 'GPU')} without processes")


def _held(gpu: Gpu) -> bool:
    if gpu.memory_used_bytes is None or not gpu.memory_total_bytes or gpu.unified:
        return False
    return gpu.memory_used_bytes > IDLE_FRACTION * gpu.memory_total_bytes


def _processes(busy: tuple[Gpu, ...]) -> Finding:
    pids = sorted({p for g in busy for p in g.processes})
    used = sum(g.memory_used_bytes or 0 for g in busy)
    return Finding(
        "warn",
        f"{count(len(busy), 'GPU')} ({some(g.index for g in busy)}) in use by pid {some(pids)}, "
        f"{show_memory(used)} held",
        wanted="no process on any GPU before an engine starts",
        why="a new engine sizes its memory by the fullest GPU, or runs out of it; right only while the engine serves",
        hint=f"`ps -fp {','.join(map(str, pids[:8]))}`; stop what is not the serving engine",
    )


def _orphans(held: tuple[Gpu, ...]) -> Finding:
    each = some(f"GPU {g.index}: {show_memory(g.memory_used_bytes or 0)}" for g in held)
    return Finding(
        "warn",
        f"memory is held with no process to show for it ({each})",
        wanted=f"at most {percent(IDLE_FRACTION)} used",
        why="a dead or hidden process keeps it (another container's are not listed); a new engine has less room",
        hint="`fuser -v /dev/nvidia*` names holders; `nvidia-smi --gpu-reset -i N` frees what nobody holds",
    )


CHECK = Check(
    id="gpu.idle_clean",
    asks="Are the GPUs empty before an engine starts?",
    source="NVML memory and compute processes of each GPU",
    modes=ON_A_NODE,
    run=run,
)
