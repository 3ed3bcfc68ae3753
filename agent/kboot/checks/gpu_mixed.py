"""Does GPU 0 mean the same card to everybody?"""

from __future__ import annotations

from collections import Counter

from kboot.checkpoint import CheckpointFacts
from kboot.checks.types import ON_A_NODE, Check, Finding
from kboot.checks.words import count, some
from kboot.facts.types import NodeFacts
from kboot.profile.types import Profile


def run(facts: NodeFacts, profile: Profile | None, checkpoint: CheckpointFacts | None) -> Finding:
    """Numbers of NVML follow the bus, CUDA's the speed unless CUDA_DEVICE_ORDER says otherwise: one model is alike."""
    gpu = facts.gpu
    if not gpu.gpus:
        if gpu.nvml in ("ok", "no-library", "no-driver"):
            return Finding("skip", "no GPU is listed")
        return Finding("unknown", f"NVML did not answer ({gpu.nvml})")
    models = Counter(g.name for g in gpu.gpus)
    if len(models) == 1:
        return Finding("ok", f"{count(len(gpu.gpus), 'GPU')} of one model")
    seen = some(f"{number}x {name}" for name, number in sorted(models.items()))
    if gpu.device_order == "PCI_BUS_ID":
        return Finding("ok", f"{seen}; CUDA_DEVICE_ORDER=PCI_BUS_ID makes numbers mean the same")
    if gpu.visible and not any(part.strip().isdecimal() for part in gpu.visible.split(",")):
        return Finding("ok", f"{seen}; CUDA_VISIBLE_DEVICES names them by UUID")
    return Finding(
        "warn",
        f"models are mixed: {seen}",
        wanted="one model, or CUDA_DEVICE_ORDER=PCI_BUS_ID",
        why="kboot hands GPUs over by UUID; other programs that count meet another card under the same number",
        hint="set CUDA_DEVICE_ORDER=PCI_BUS_ID for every program on this node, or name GPUs by UUID",
    )


CHECK = Check(
    id="gpu.mixed",
    asks="Does GPU 0 mean the same card to everybody?",
    source="NVML product names; CUDA_DEVICE_ORDER and CUDA_VISIBLE_DEVICES",
    modes=ON_A_NODE,
    run=run,
)
