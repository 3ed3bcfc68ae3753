"""Were the model's terms accepted on this node, for the text that the commit carries?"""

from __future__ import annotations

from kboot.checkpoint import CheckpointFacts
from kboot.checks.asked import gap_reason
from kboot.checks.types import EVERYWHERE, Check, Finding
from kboot.facts.types import NodeFacts
from kboot.profile.types import Profile


def run(facts: NodeFacts, profile: Profile | None, checkpoint: CheckpointFacts | None) -> Finding:
    """Boot refuses a hand-off without it; better to know before the node is needed."""
    if profile is None:
        return Finding("skip", "no profile says which model")
    terms = facts.kept.terms
    if terms is None:
        return Finding("unknown", f"the record could not be looked at ({gap_reason(facts, 'kept')})")
    if terms.passes:
        return Finding("ok", terms.why)
    name = profile.license.name or profile.checkpoint.repo
    return Finding(
        "fail",
        f"{name}: {terms.why}",
        wanted="a record of acceptance for this very text",
        why="boot ends with status 16 before the hand-off",
        hint=f"`kboot license show --profile {profile.name}`, then `kboot license accept --profile {profile.name}`",
    )


CHECK = Check(
    id="ckpt.license",
    asks="Were the model's terms accepted on this node, for the text that the commit carries?",
    source="licenses/*.json in the state folder; the licence file of the commit",
    modes=EVERYWHERE,
    run=run,
)
