"""Are the GPUs free to choose their clocks?"""

from __future__ import annotations

from kboot.checkpoint import CheckpointFacts
from kboot.checks.told import told
from kboot.checks.types import ON_A_NODE, Check, Finding
from kboot.checks.words import count, ranges
from kboot.facts.types import NodeFacts
from kboot.profile.types import Profile


def run(facts: NodeFacts, profile: Profile | None, checkpoint: CheckpointFacts | None) -> Finding:
    """A clock that somebody locked stays locked until it is taken back."""
    reasons = told(facts, "slowdown", lambda g: g.slowdown)
    locked = [i for i, each in reasons.values.items() if "clocks-setting" in each]
    if not locked:
        return reasons.rest(f"no clock setting holds {count(len(reasons.values), 'GPU')}")
    chosen = ",".join(map(str, sorted(locked)))
    return Finding(
        "warn",
        f"a clock setting holds GPU {ranges(locked)} below what it could do",
        wanted="no locked clocks",
        why="prefill and decode run slower than the GPU could",
        hint=f"`nvidia-smi -i {chosen} -rgc` and `nvidia-smi -i {chosen} -rac`",
    )


CHECK = Check(
    id="gpu.clocks",
    asks="Are the GPUs free to choose their clocks?",
    source="NVML clocks event reasons",
    modes=ON_A_NODE,
    run=run,
)
