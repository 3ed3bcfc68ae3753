"""Is the end of this machine announced?"""

from __future__ import annotations

from kboot.checkpoint import CheckpointFacts
from kboot.checks.asked import gap_reason, unread
from kboot.checks.types import Check, Finding
from kboot.checks.words import some
from kboot.facts.types import NodeFacts
from kboot.profile.types import Profile


def run(facts: NodeFacts, profile: Profile | None, checkpoint: CheckpointFacts | None) -> Finding:
    """A fetch of hours on a machine that goes in two minutes is lost."""
    reclaim = facts.kept.reclaim
    if reclaim is None:
        if unread(facts, "kept.reclaim"):
            return Finding("unknown", f"nobody could be asked ({gap_reason(facts, 'kept.reclaim')})")
        return Finding("skip", "kboot.toml names nobody who would announce it (reclaim)")
    if reclaim.said:
        return Finding(
            "fail",
            reclaim.said,
            wanted="no notice",
            why="what is begun now will not be finished, and what is on local disks goes with the machine",
            hint="drain the node; boot its replacement",
        )
    if reclaim.silent:
        return Finding(
            "unknown",
            some(f"{word} does not answer ({why})" for word, why in sorted(reclaim.silent.items())),
            wanted="an answer of each",
            hint="correct `reclaim` in kboot.toml, or see whether the metadata service is blocked",
        )
    return Finding("ok", f"no notice from {', '.join(reclaim.asked)}")


CHECK = Check(
    id="spot.notice",
    asks="Is the end of this machine announced?",
    source="the sources that `reclaim` in kboot.toml names",
    modes=frozenset({"full", "deep"}),
    run=run,
)
