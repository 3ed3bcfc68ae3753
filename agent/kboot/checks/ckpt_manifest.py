"""Do listing and weight index of the pinned commit agree?"""

from __future__ import annotations

from kboot.checkpoint import CheckpointFacts
from kboot.checks.asked import gap_reason, layout_for, unread
from kboot.checks.ckpt_complete import asked
from kboot.checks.types import EVERYWHERE, Check, Finding
from kboot.checks.words import count, some
from kboot.facts.types import NodeFacts
from kboot.profile.types import Profile


def run(facts: NodeFacts, profile: Profile | None, checkpoint: CheckpointFacts | None) -> Finding:
    """An engine loads what the index names; a shard that nobody listed would be missing without a word."""
    if checkpoint is None:
        return Finding("skip", "no commit is known on this disk: see ckpt.complete")
    listing = checkpoint.listing
    layout = layout_for(facts.gpu, profile) if profile else None
    if layout is not None and layout.nodes > 1 and listing.revision != listing.commit:
        return Finding(
            "warn",
            f"revision {listing.revision!r} stands for {listing.commit[:12]} here; layout {layout.name} has "
            f"{layout.nodes} nodes",
            wanted="a commit of 40 hex digits",
            why="a branch may move between two nodes' boots: they would serve different weights as one model",
            hint=f'checkpoint.revision = "{listing.commit}" in the profile',
        )
    index = facts.kept.index
    if index is None:
        if unread(facts, "kept"):
            return Finding("unknown", f"the index could not be read ({gap_reason(facts, 'kept')})")
        return Finding("ok", f"{listing.commit[:12]} has no weight index: its weights are one file, or not safetensors")
    if index.problem:
        return Finding(
            "warn",
            f"{index.path} cannot be used: {index.problem}",
            wanted="the index of the pinned commit",
            why="boot fetches it first; until then nobody can say which shards belong to the model",
            hint=f"`kboot fetch{asked(profile)}`",
        )
    listed = {file.path for file in listing.files}
    lost = [shard for shard in index.shards if shard not in listed]
    if lost:
        return Finding(
            "fail",
            f"{index.path} names {count(len(lost), 'shard')} that the listing has not: {some(lost)}",
            wanted="every shard of the index",
            why="the model would load with weights that were never set",
            hint="take the shards out of checkpoint.exclude, or pin another revision",
        )
    return Finding("ok", f"{count(len(index.shards), 'shard')} of {index.path}, all of them listed")


CHECK = Check(
    id="ckpt.manifest",
    asks="Do listing and weight index of the pinned commit agree?",
    source="trees/<commit>.json; model.safetensors.index.json",
    modes=EVERYWHERE,
    run=run,
)
