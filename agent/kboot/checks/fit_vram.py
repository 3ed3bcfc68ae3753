"""Do the weights fit into the GPUs' free memory, with room for the engine?"""

from __future__ import annotations

from kboot.checkpoint import CheckpointFacts
from kboot.checks.asked import gap_reason, gpus_for, layout_for, serving_pids
from kboot.checks.types import ON_A_NODE, Check, Finding
from kboot.checks.words import count, percent, some
from kboot.facts.types import Gpu, NodeFacts
from kboot.profile.types import LayoutAsk, Profile
from kboot.quantities import show_memory
from kboot.values import dataclass

TIGHT_FRACTION = 0.15
"""Below this share of a GPU's memory left over, activations and KV cache have little room."""


def run(facts: NodeFacts, profile: Profile | None, checkpoint: CheckpointFacts | None) -> Finding:
    """Compare what the fullest rank holds, as the checkpoint's headers say, with the GPU that has least free."""
    if profile is None:
        return Finding("skip", "no profile says which weights")
    if not facts.gpu.gpus:
        return Finding("skip", f"no GPU is listed (NVML: {facts.gpu.nvml})")
    layout = layout_for(facts.gpu, profile)
    if layout is None or not layout.gpus_per_node:
        return Finding("skip", f"profile {profile.name} puts no weights on these GPUs")
    weights = weight_bytes(profile, checkpoint)
    if weights is None:
        return Finding("unknown", "neither a listing on this disk nor the profile says how large the weights are")
    chosen = gpus_for(facts.gpu, layout)[: layout.gpus_per_node]
    if all(g.processes and serving_pids(facts).issuperset(g.processes) for g in chosen):
        return Finding("ok", f"the engine that serves has loaded them: {count(len(chosen), 'GPU')}")
    free_of = {g.index: free_bytes(g, facts) for g in chosen}
    unread = [i for i, free in free_of.items() if free is None]
    if unread:
        reason = gap_reason(facts, *(f"gpus.{i}" for i in unread))
        return Finding("unknown", f"free memory of GPU {some(unread)} could not be read ({reason})")
    return _judge(facts, layout, weights, {i: free for i, free in free_of.items() if free is not None})


def weight_bytes(profile: Profile, checkpoint: CheckpointFacts | None) -> int | None:
    """Return the bytes of the listed safetensors files, or the published size; None when neither is known."""
    if checkpoint is not None:
        listed = sum(f.size_bytes for f in checkpoint.listing.files if f.path.endswith(".safetensors"))
        if listed:
            return listed
    return profile.model.size_bytes


def free_bytes(gpu: Gpu, facts: NodeFacts) -> int | None:
    """Return what an engine could take of a GPU now: of the host on unified parts, of the largest slice under MIG."""
    if gpu.unified:
        return facts.memory.available_bytes or None
    if gpu.mig:
        return max((s.memory_total_bytes or 0 for s in gpu.mig_slices), default=0)
    if gpu.memory_total_bytes is None or gpu.memory_used_bytes is None:
        return None
    return gpu.memory_total_bytes - gpu.memory_used_bytes


def sharing_gpus(layout: LayoutAsk) -> int:
    """Return over how many GPUs one copy of the weights is spread; data parallelism spreads experts only."""
    parallel = layout.parallel
    ranks = parallel.tensor * parallel.pipeline * (parallel.data if parallel.expert else 1)
    return max(1, min(ranks, layout.gpus_per_node * layout.nodes))


@dataclass(frozen=True, slots=True)
class _Share:
    """What the fullest rank holds. held_bytes: weights. reserve_bytes: what is neither weights nor cache."""

    held_bytes: int
    reserve_bytes: int
    words: str
    serves: bool = True


def _share(facts: NodeFacts, layout: LayoutAsk, weights: int) -> _Share:
    """Return the share by the headers of the checkpoint; an even part of its size where nobody has read them."""
    known = facts.asked.weights
    if known is not None and known.layout == layout.name:
        return _Share(
            known.largest_bytes,
            known.reserve_bytes,
            f"{show_memory(known.largest_bytes)} of weights on the fullest rank of {layout.name} ({known.division})",
            known.serves,
        )
    even = weights // sharing_gpus(layout)
    words = f"{show_memory(even)} of weights per GPU in layout {layout.name}, if they divide evenly"
    return _Share(even, 0, words)


def _judge(facts: NodeFacts, layout: LayoutAsk, weights: int, free_of: dict[int, int]) -> Finding:
    share = _share(facts, layout, weights)
    fullest = min(free_of, key=lambda i: (free_of[i], i))
    free = free_of[fullest]
    gpu = next(g for g in facts.gpu.gpus if g.index == fullest)
    total = max(free, (0 if gpu.mig else gpu.memory_total_bytes) or 0)
    seen = f"{share.words}, {show_memory(free)} free on GPU {fullest}"
    if share.held_bytes + share.reserve_bytes >= free:
        reserve = f"; the engine needs {show_memory(share.reserve_bytes)} beside them" if share.reserve_bytes else ""
        return Finding(
            "fail",
            f"{seen}, the fullest" + (f" (pid {some(gpu.processes)} holds memory)" if gpu.processes else "") + reserve,
            wanted=f"more than {show_memory(share.held_bytes + share.reserve_bytes)} free on every GPU",
            why="loading ends in out-of-memory",
            hint=f"free GPU {fullest}, or take a layout with more GPUs (`kboot fit` lists those that fit)",
        )
    left = free - share.held_bytes
    if not share.serves:
        return Finding(
            "warn",
            f"{seen}: the KV cache has no room for one sequence of the length that is asked for",
            wanted="room for one sequence",
            why="the engine refuses to start with this maximum length",
            hint="`kboot fit` says how many tokens fit: lower the maximum length, or take a layout with more GPUs",
        )
    if left < TIGHT_FRACTION * total:
        return Finding(
            "warn",
            f"{seen}: {show_memory(left)} are left for activations and KV cache",
            wanted=f"at least {percent(TIGHT_FRACTION)} of the GPU left",
            why="a long context or many requests will not fit",
            hint="`kboot fit` gives the exact sum per rank",
        )
    return Finding("ok", f"{seen}: {show_memory(left)} are left")


CHECK = Check(
    id="fit.vram",
    asks="Do the weights fit into the GPUs' free memory, with room for the engine?",
    source="the headers of the checkpoint's files; NVML memory of each GPU",
    modes=ON_A_NODE,
    run=run,
)
