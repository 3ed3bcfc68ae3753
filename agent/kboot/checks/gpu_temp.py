"""Are the GPUs cool enough?"""

from __future__ import annotations

from kboot.checkpoint import CheckpointFacts
from kboot.checks.told import told
from kboot.checks.types import ON_A_NODE, Check, Finding
from kboot.checks.words import some
from kboot.facts.types import NodeFacts
from kboot.profile.types import Profile

NEAR_C = 5
MEMORY_LIMIT_C = 95
"""HBM is refreshed twice as often above this."""


def run(facts: NodeFacts, profile: Profile | None, checkpoint: CheckpointFacts | None) -> Finding:
    """Compare with the part's own threshold."""
    temps = told(facts, "temperature_c", lambda g: g.temperature_c)
    limit_of = {g.index: g.slowdown_c for g in facts.health.gpus}
    hot = {
        i: f"{c} C, slows down at {limit_of[i]} C"
        for i, c in temps.values.items()
        if (limit := limit_of.get(i)) and c >= limit - NEAR_C
    }
    memory = {g.index: g.memory_temperature_c for g in facts.health.gpus if g.index in temps.values}
    hot |= {i: f"memory {c} C" for i, c in memory.items() if c and c >= MEMORY_LIMIT_C and i not in hot}
    if not hot:
        return temps.rest(f"{max(temps.values.values(), default=0)} C at most")
    return Finding(
        "warn",
        some(f"GPU {i}: {why}" for i, why in sorted(hot.items())),
        wanted=f"{NEAR_C} C below the slowdown threshold, memory below {MEMORY_LIMIT_C} C",
        why="the GPU is about to slow down, or does already",
        hint="check fans, inlet temperature and airflow; drain the node if it is idle and still hot",
    )


CHECK = Check(
    id="gpu.temp",
    asks="Are the GPUs cool enough?",
    source="NVML temperatures and slowdown threshold",
    modes=ON_A_NODE,
    run=run,
)
