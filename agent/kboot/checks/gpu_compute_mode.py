"""May several processes use each GPU?"""

from __future__ import annotations

from kboot.checkpoint import CheckpointFacts
from kboot.checks.told import told
from kboot.checks.types import ON_A_NODE, Check, Finding
from kboot.checks.words import count, some
from kboot.facts.types import NodeFacts
from kboot.profile.types import Profile


def run(facts: NodeFacts, profile: Profile | None, checkpoint: CheckpointFacts | None) -> Finding:
    """Engines use a GPU from several processes."""
    modes = told(facts, "compute_mode", lambda g: g.compute_mode)
    other = {i: mode for i, mode in modes.values.items() if mode != "default"}
    if not other:
        return modes.rest(f"default on {count(len(modes.values), 'GPU')}")
    return Finding(
        "fail" if "prohibited" in other.values() else "warn",
        some(f"GPU {i} is {mode}" for i, mode in sorted(other.items())),
        wanted="default",
        why="prohibited GPUs run nothing; on exclusive ones a second process of the engine is refused",
        hint=f"`nvidia-smi -i {','.join(map(str, sorted(other)))} -c DEFAULT`",
    )


CHECK = Check(
    id="gpu.compute_mode",
    asks="May several processes use each GPU?",
    source="NVML compute mode",
    modes=ON_A_NODE,
    run=run,
)
