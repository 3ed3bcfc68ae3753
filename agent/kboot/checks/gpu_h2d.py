"""Do bytes reach every GPU at the rate of its class?"""

from __future__ import annotations

from kboot.checkpoint import CheckpointFacts
from kboot.checks.asked import gap_reason, gpus_for, layout_for
from kboot.checks.fit_vram import weight_bytes
from kboot.checks.rates import TOLERATED, rates_of
from kboot.checks.types import Check, Finding
from kboot.checks.words import count, some
from kboot.facts.types import Gpu, NodeFacts
from kboot.profile.types import Profile

LIKE_OTHERS = 0.7
"""A GPU of no listed class is slow where it gets less than this part of what the best of its name gets."""


def run(facts: NodeFacts, profile: Profile | None, checkpoint: CheckpointFacts | None) -> Finding:
    """Compare with the class's rate, or with the best GPU of the same name where there is no row for the class."""
    cuda = facts.asked.cuda
    if not facts.gpu.gpus:
        return Finding("skip", f"no GPU is listed (NVML: {facts.gpu.nvml})")
    if cuda is None:
        return Finding("skip", f"nothing was copied ({gap_reason(facts, 'asked.cuda')})")
    if cuda.state != "ok":
        return Finding("unknown", f"CUDA did not start ({cuda.state}): see gpu.cuda_init")
    gpu_of = {g.bus_id: g for g in facts.gpu.gpus}
    rate_of = {d.bus_id: d.h2d_bytes_per_s / 1e9 for d in cuda.devices if d.h2d_bytes_per_s and d.bus_id in gpu_of}
    if not rate_of:
        return Finding("unknown", "no GPU was free to be measured: all have processes, or time ran out")
    return _judge(facts, {gpu_of[bus]: rate for bus, rate in rate_of.items()}, profile, checkpoint)


def _judge(
    facts: NodeFacts, rate_of: dict[Gpu, float], profile: Profile | None, checkpoint: CheckpointFacts | None
) -> Finding:
    wanted_of = {gpu: _wanted(gpu, rate_of) for gpu in rate_of}
    slow = {gpu: rate for gpu, rate in rate_of.items() if rate < wanted_of[gpu]}
    seen = f"{min(rate_of.values()):.1f} to {max(rate_of.values()):.1f} GB/s to {count(len(rate_of), 'GPU')}"
    if not slow:
        return Finding("ok", seen)
    named = some(f"GPU {g.index} at {rate:.1f} GB/s" for g, rate in slow.items())
    if facts.links.confidential in ("on", "devtools"):
        return Finding("ok", f"{named}; confidential computing encrypts on the way: see gpu.cc_mode")
    return Finding(
        "warn",
        f"bytes reach {named}",
        wanted=f"{max(wanted_of.values()):.1f} GB/s to each",
        why=_why(facts, min(slow.values()), profile, checkpoint),
        hint="see pci.link, pci.aer and iommu.mode; compare the slot's generation in `lspci -vv` with another node",
    )


def _wanted(gpu: Gpu, rate_of: dict[Gpu, float]) -> float:
    rates = rates_of(gpu.name)
    if rates is not None:
        return TOLERATED * rates.h2d_gb_s
    return LIKE_OTHERS * max(rate for other, rate in rate_of.items() if other.name == gpu.name)


def _why(facts: NodeFacts, slowest_gb_s: float, profile: Profile | None, checkpoint: CheckpointFacts | None) -> str:
    layout = layout_for(facts.gpu, profile) if profile else None
    weights = weight_bytes(profile, checkpoint) if profile else None
    if layout is None or weights is None or not gpus_for(facts.gpu, layout):
        return "weights reach this GPU slower, and all of a layout wait for it"
    share = weights / max(1, layout.gpus_per_node * layout.nodes)
    copy_s = share / 1e9 / max(0.001, slowest_gb_s)
    return f"its share of the weights alone takes {copy_s:.1f} s to copy, and the others wait for it"


CHECK = Check(
    id="gpu.h2d",
    asks="Do bytes reach every GPU at the rate of its class?",
    source="measured: the best of six copies of 256 MiB from pinned host memory near the GPU",
    modes=frozenset({"full", "deep"}),
    run=run,
)
