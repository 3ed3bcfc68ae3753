"""Is the loaded kernel module one that knows these GPUs?"""

from __future__ import annotations

from kboot.checkpoint import CheckpointFacts
from kboot.checks.types import ON_A_NODE, Check, Finding
from kboot.checks.words import ranges
from kboot.facts.types import NodeFacts
from kboot.profile.types import Profile

OPEN_ONLY_FROM = (10, 0)


def run(facts: NodeFacts, profile: Profile | None, checkpoint: CheckpointFacts | None) -> Finding:
    """From Blackwell on only the open module drives a GPU."""
    flavor = facts.health.open_module
    if flavor is None:
        if facts.gpu.nvml == "ok" or facts.gpu.nvml in ("no-library", "no-driver"):
            return Finding("skip", "no NVIDIA module's version line is readable here")
        return Finding("unknown", f"no version line, and NVML did not answer ({facts.gpu.nvml})")
    need = [g.index for g in facts.gpu.gpus if g.compute_capability and g.compute_capability >= OPEN_ONLY_FROM]
    if flavor or not need:
        return Finding("ok", f"the {'open' if flavor else 'proprietary'} module is loaded")
    return Finding(
        "fail",
        f"the proprietary module is loaded, GPU {ranges(need)} is of a generation that needs the open one",
        wanted="the open kernel module",
        why="the proprietary module does not drive these GPUs",
        hint="install the driver's open variant (nvidia-open, `-m=kernel-open`) and reboot",
    )


CHECK = Check(
    id="gpu.kmod_flavor",
    asks="Is the loaded kernel module one that knows these GPUs?",
    source="/proc/driver/nvidia/version; NVML compute capability",
    modes=ON_A_NODE,
    run=run,
)
