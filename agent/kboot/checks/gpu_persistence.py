"""Does the driver keep the GPUs awake between programs?"""

from __future__ import annotations

from kboot.checkpoint import CheckpointFacts
from kboot.checks.told import told
from kboot.checks.types import ON_A_NODE, Check, Finding
from kboot.checks.words import count, ranges
from kboot.facts.types import NodeFacts
from kboot.profile.types import Profile


def run(facts: NodeFacts, profile: Profile | None, checkpoint: CheckpointFacts | None) -> Finding:
    """Without it every program that asks wakes the GPUs anew; only the time it took makes it more than a warning."""
    modes = told(facts, "persistence", lambda g: g.persistence)
    off = [index for index, on in modes.values.items() if not on]
    if not off:
        return modes.rest(f"persistence mode is on for {count(len(modes.values), 'GPU')}")
    took = facts.health.nvml_seconds
    return Finding(
        "warn",
        f"persistence mode is off on GPU {ranges(off)}" + (f"; asking NVML took {took:.1f} s" if took else ""),
        wanted="on",
        why="every CUDA or NVML program wakes the GPUs first, 3-4 s each, and clock settings are lost in between",
        hint="`systemctl enable --now nvidia-persistenced`, or `nvidia-smi -pm 1` until the next boot",
    )


CHECK = Check(
    id="gpu.persistence",
    asks="Does the driver keep the GPUs awake between programs?",
    source="NVML persistence mode",
    modes=ON_A_NODE,
    run=run,
)
