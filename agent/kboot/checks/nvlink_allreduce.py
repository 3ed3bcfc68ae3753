"""Do the GPUs of this node exchange bytes at the rate of their class?"""

from __future__ import annotations

from kboot.checkpoint import CheckpointFacts
from kboot.checks.asked import gap_reason, unread
from kboot.checks.rates import ALLREDUCE_GPUS, TOLERATED, rates_here
from kboot.checks.types import Check, Finding
from kboot.facts.types import NodeFacts
from kboot.profile.types import Profile
from kboot.quantities import show_bytes


def run(facts: NodeFacts, profile: Profile | None, checkpoint: CheckpointFacts | None) -> Finding:
    """Compare NCCL's all-reduce with the class's rate, which is that of eight on NVLink: others are not judged."""
    found = facts.asked.allreduce
    if found is None:
        if unread(facts, "asked.allreduce"):
            return Finding("unknown", f"all_reduce_perf gave no rate ({gap_reason(facts, 'asked.allreduce')})")
        return Finding("skip", "all_reduce_perf is not installed, or there are no two GPUs that are free")
    seen = f"{found.bus_gb_s:.0f} GB/s over {found.gpus} GPUs ({show_bytes(found.size_bytes)})"
    if found.wrong:
        return Finding(
            "fail",
            f"{found.wrong} wrong values in an all-reduce of {show_bytes(found.size_bytes)}",
            wanted="none",
            why="the engine would answer nonsense, without an error",
            hint="`dcgmi diag -r 3`; `dmesg | grep -i xid`; drain the node",
        )
    rates = rates_here(facts)
    linked = all(any(g.nvlinks or ()) for g in facts.health.gpus) and bool(facts.health.gpus)
    if rates is None or not linked or found.gpus != ALLREDUCE_GPUS:
        return Finding("ok", f"{seen}; kboot has no rate to compare it with")
    if found.bus_gb_s >= TOLERATED * rates.allreduce_gb_s:
        return Finding("ok", f"{seen}; a sound node gives {rates.allreduce_gb_s:.0f}")
    return Finding(
        "warn",
        seen,
        wanted=f"{TOLERATED * rates.allreduce_gb_s:.0f} GB/s",
        why="every token of a tensor-parallel layout waits for two all-reduces in each layer",
        hint="see nvlink.links, fabric.state and gpu.p2p; NCCL_DEBUG=INFO shows which path was taken",
    )


CHECK = Check(
    id="nvlink.allreduce",
    asks="Do the GPUs of this node exchange bytes at the rate of their class?",
    source="all_reduce_perf of nccl-tests over all GPUs, with none in use",
    modes=frozenset({"deep"}),
    run=run,
)
