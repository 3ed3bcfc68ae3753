"""Does the driver ask for a reset or a reboot?"""

from __future__ import annotations

from kboot.checkpoint import CheckpointFacts
from kboot.checks.told import told
from kboot.checks.types import ON_A_NODE, Check, Finding
from kboot.checks.words import count, some
from kboot.facts.types import NodeFacts
from kboot.profile.types import Profile


def run(facts: NodeFacts, profile: Profile | None, checkpoint: CheckpointFacts | None) -> Finding:
    """The driver's own verdict after an error."""
    actions = told(facts, "recovery_action", lambda g: g.recovery_action)
    wanted = {i: action for i, action in actions.values.items() if action != "none"}
    if not wanted:
        return actions.rest(f"none for {count(len(actions.values), 'GPU')}")
    return Finding(
        "fail",
        "the driver asks for " + some(f"{action} of GPU {i}" for i, action in sorted(wanted.items())),
        wanted="none",
        why="the GPU had an error that it does not recover from by itself",
        hint="stop what runs on it, then `nvidia-smi -r -i N`, or reboot where it asks for that",
    )


CHECK = Check(
    id="gpu.recovery_action",
    asks="Does the driver ask for a reset or a reboot?",
    source="NVML GPU recovery action",
    modes=ON_A_NODE,
    run=run,
)
