"""Was every byte of the checkpoint hashed on this node, and is it still the same file?"""

from __future__ import annotations

from kboot.checkpoint import CheckpointFacts
from kboot.checks.asked import gap_reason, unread
from kboot.checks.ckpt_complete import asked, not_listed
from kboot.checks.types import EVERYWHERE, Check, Finding
from kboot.checks.words import count, in_part, some
from kboot.facts.types import NodeFacts
from kboot.profile.types import Profile
from kboot.quantities import show_bytes, show_roughly

STALE_S = 30 * 86400
"""Disks lose bits silently: bytes that nobody hashed for a month are worth hashing again."""


def run(facts: NodeFacts, profile: Profile | None, checkpoint: CheckpointFacts | None) -> Finding:
    """Judge by the ledger; what is missing altogether is ckpt.complete's finding."""
    if checkpoint is None:
        return not_listed(facts, profile)
    if unread(facts, "ledger"):
        return Finding("unknown", f"the ledger could not be read ({gap_reason(facts, 'ledger')})")
    unproven = [f for f in checkpoint.files if f.state == "present"]
    if unproven:
        unhashed = sum(f.file.size_bytes for f in unproven)
        return Finding(
            "fail" if checkpoint.published else "warn",
            f"{count(len(unproven), 'file')} ({show_bytes(unhashed)}) not proven: "
            + some((f"{f.file.path} ({f.why or 'never hashed here'})" for f in unproven), 3),
            wanted="sha256 of every file in the ledger",
            why="the serving path leads to bytes nobody hashed" if checkpoint.published else "boot hashes them first",
            hint=f"`kboot verify{asked(profile)} --mode full`",
        )
    shared = [f for f in checkpoint.files if f.state == "shared"]
    hashed = [f.verified_unix_s for f in checkpoint.files if f.state == "verified" and f.verified_unix_s is not None]
    if not hashed:
        return Finding("skip", "no file is here yet: see ckpt.complete")
    oldest_s = facts.collected_unix_s - min(hashed)
    seen = f"{len(hashed)} of {count(len(checkpoint.files), 'file')} verified, the oldest {show_roughly(oldest_s)} ago"
    if oldest_s > STALE_S:
        return Finding(
            "warn",
            seen,
            wanted=f"less than {show_roughly(STALE_S)}",
            why="the identity is unchanged, but a bit flipped on the disk would not show in it",
            hint=f"`kboot verify{asked(profile)} --mode full`, or enable kboot-scrub.timer",
        )
    return Finding("ok", f"{seen}; {in_part(shared)}" if shared else seen)


CHECK = Check(
    id="ckpt.verified",
    asks="Was every byte of the checkpoint hashed on this node, and is it still the same file?",
    source="ledger.db; stat of every file",
    modes=EVERYWHERE,
    run=run,
)
