"""Does something hold the GPUs' clocks down?"""

from __future__ import annotations

from kboot.checkpoint import CheckpointFacts
from kboot.checks.told import told
from kboot.checks.types import ON_A_NODE, Check, Finding
from kboot.checks.words import count, some
from kboot.facts.types import NodeFacts
from kboot.profile.types import Profile

FAULTS = {
    "hw-slowdown": "hardware slowdown",
    "hw-thermal": "hardware thermal slowdown",
    "sw-thermal": "thermal slowdown",
    "power-brake": "external power brake",
}


def run(facts: NodeFacts, profile: Profile | None, checkpoint: CheckpointFacts | None) -> Finding:
    """Heat and power brakes are faults of the machine; the power cap is how a busy GPU works."""
    reasons = told(facts, "slowdown", lambda g: g.slowdown)
    held = {i: [FAULTS[r] for r in each if r in FAULTS] for i, each in reasons.values.items()}
    held = {i: names for i, names in held.items() if names}
    if not held:
        return reasons.rest(f"nothing slows {count(len(reasons.values), 'GPU')}")
    return Finding(
        "warn",
        some(f"GPU {i}: {some(names)}" for i, names in sorted(held.items())),
        wanted="no slowdown by heat or power",
        why="the slowest GPU sets the pace of all of a layout",
        hint="check fans, inlet temperature and power supplies of the chassis; drain the node if it stays",
    )


CHECK = Check(
    id="gpu.throttle",
    asks="Does something hold the GPUs' clocks down?",
    source="NVML clocks event reasons",
    modes=ON_A_NODE,
    run=run,
)
