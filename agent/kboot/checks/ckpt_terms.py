"""Which conditions of the model's licence apply to this operator?"""

from __future__ import annotations

from kboot.checkpoint import CheckpointFacts
from kboot.checks.types import EVERYWHERE, Check, Finding
from kboot.facts.types import NodeFacts
from kboot.profile.terms import judge
from kboot.profile.types import Profile


def run(facts: NodeFacts, profile: Profile | None, checkpoint: CheckpointFacts | None) -> Finding:
    """Compare the conditions' thresholds with what the operator declares in kboot.toml."""
    if profile is None:
        return Finding("skip", "no profile says which model")
    if not profile.license.condition:
        return Finding("skip", f"profile {profile.name} has no conditions with thresholds")
    if checkpoint is None:
        return Finding("skip", "no commit is known on this disk, so neither are its terms")
    states = judge(profile.license, profile.declared)
    applying = [s for s in states if s.applies == "yes"]
    if applying:
        return Finding(
            "warn",
            "; ".join(s.text for s in applying),
            wanted="the condition met, or none that applies",
            why=f"{profile.license.name} asks for it of whoever serves the model",
            hint=f"read the terms with `kboot license show --profile {profile.name}`",
        )
    open_ones = [s for s in states if s.applies == "unknown"]
    if open_ones:
        return Finding(
            "unknown",
            "; ".join(s.text for s in open_ones),
            hint='declare use, revenue and users in [operator] of kboot.toml; `use = "internal"` may be all it takes',
        )
    return Finding("ok", f"none of {len(states)} conditions of {profile.license.name} applies to what is declared")


CHECK = Check(
    id="ckpt.terms",
    asks="Which conditions of the model's licence apply to this operator?",
    source="license.condition of the profile; [operator] of kboot.toml",
    modes=EVERYWHERE,
    run=run,
)
