"""Are the shards still the bytes that were proven?"""

from __future__ import annotations

from kboot.checkpoint import CheckpointFacts
from kboot.checks.asked import gap_reason, unread
from kboot.checks.ckpt_complete import asked
from kboot.checks.types import Check, Finding
from kboot.checks.words import count, some
from kboot.facts.types import NodeFacts
from kboot.profile.types import Profile
from kboot.quantities import show_bytes


def run(facts: NodeFacts, profile: Profile | None, checkpoint: CheckpointFacts | None) -> Finding:
    """A bit that flips on a disk changes no name, size or time."""
    if checkpoint is None:
        return Finding("skip", "no commit is known on this disk: see ckpt.complete")
    rot = facts.measured.rot
    if rot is None:
        if unread(facts, "measured.samples"):
            return Finding("unknown", f"not sampled ({gap_reason(facts, 'measured.samples')})")
        return Finding("skip", "no shard is here of which the beginning's hash is known")
    shards = count(rot.files, "shard")
    if rot.wrong:
        return Finding(
            "fail",
            f"{len(rot.wrong)} of {shards} begin with other bytes than were proven: {some(rot.wrong)}",
            wanted="the bytes of the pinned commit",
            why="an engine that loads them answers wrongly, and nothing says so",
            hint=f"`kboot verify{asked(profile)} --mode full --repair`, then look at disk.health",
        )
    return Finding("ok", f"{shards} sampled from the disk, {show_bytes(rot.size_bytes)}, all as proven")


CHECK = Check(
    id="ckpt.bitrot",
    asks="Are the shards still the bytes that were proven?",
    source="ledger.db; measured: the first 16 MiB of each shard, read past the page cache",
    modes=frozenset({"full", "deep"}),
    run=run,
)
