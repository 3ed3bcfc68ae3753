"""Are the GPUs whole, as the profile's layout needs them?"""

from __future__ import annotations

from kboot.checkpoint import CheckpointFacts
from kboot.checks.asked import layout_for
from kboot.checks.types import ON_A_NODE, Check, Finding
from kboot.checks.words import count, ranges
from kboot.facts.types import NodeFacts
from kboot.profile.types import Profile


def run(facts: NodeFacts, profile: Profile | None, checkpoint: CheckpointFacts | None) -> Finding:
    """MIG is a finding only where a layout asks for whole GPUs; without a profile it is a fact of the node."""
    gpus = facts.gpu.gpus
    if not gpus:
        return Finding("skip", f"no GPU is listed (NVML: {facts.gpu.nvml})")
    sliced = [g.index for g in gpus if g.mig]
    if not sliced:
        return Finding("ok", f"MIG is off on {count(len(gpus), 'GPU')}")
    seen = f"MIG is on for GPU {ranges(sliced)}"
    layout = layout_for(facts.gpu, profile) if profile else None
    if layout is None:
        return Finding("ok", f"{seen}; nothing asks for whole GPUs")
    whole = len(gpus) - len(sliced)
    if whole >= layout.gpus_per_node:
        return Finding("ok", f"{seen}; {whole} whole GPUs are left for layout {layout.name}")
    return Finding(
        "fail",
        f"{seen}; layout {layout.name} needs {count(layout.gpus_per_node, 'whole GPU')}, {whole} are left",
        wanted="MIG off",
        why="an engine sees slices with a part of the memory, and cannot use NVLink between them",
        hint=f"`nvidia-smi -i {','.join(map(str, sliced))} -mig 0` with no process on them, then reset or reboot",
    )


CHECK = Check(
    id="gpu.mig_mode",
    asks="Are the GPUs whole, as the profile's layout needs them?",
    source="NVML MIG mode of each GPU",
    modes=ON_A_NODE,
    run=run,
)
