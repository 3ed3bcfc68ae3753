"""Have the GPUs their full power?"""

from __future__ import annotations

from kboot.checkpoint import CheckpointFacts
from kboot.checks.told import told
from kboot.checks.types import ON_A_NODE, Check, Finding
from kboot.checks.words import some
from kboot.facts.types import NodeFacts
from kboot.profile.types import Profile


def run(facts: NodeFacts, profile: Profile | None, checkpoint: CheckpointFacts | None) -> Finding:
    """Compare the limit in force with the board's default."""
    limits = told(facts, "power_w", lambda g: g.power_w)
    low = {i: pair for i, pair in limits.values.items() if pair[0] < pair[1] - 1}
    if not low:
        each = sorted({f"{enforced:.0f} W" for enforced, _ in limits.values.values()})
        return limits.rest(f"limit {some(each)}, not below the default")
    return Finding(
        "warn",
        some(f"GPU {i}: {enforced:.0f} of {default:.0f} W" for i, (enforced, default) in sorted(low.items())),
        wanted="the board's default",
        why="under load the clocks fall to keep the limit",
        hint=f"`nvidia-smi -i {','.join(map(str, sorted(low)))} -pl {max(d for _, d in low.values()):.0f}`, "
        "unless the rack is meant to be capped",
    )


CHECK = Check(
    id="gpu.power_limit",
    asks="Have the GPUs their full power?",
    source="NVML enforced and default power limit",
    modes=ON_A_NODE,
    run=run,
)
