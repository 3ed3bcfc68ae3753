"""Is every file of the pinned commit on this disk, whole?"""

from __future__ import annotations

from kboot.checkpoint import CheckpointFacts, LocalFile
from kboot.checks.asked import gap_reason, unread
from kboot.checks.types import EVERYWHERE, Check, Finding
from kboot.checks.words import count, some
from kboot.facts.types import NodeFacts
from kboot.profile.types import Profile
from kboot.quantities import show_bytes


def run(facts: NodeFacts, profile: Profile | None, checkpoint: CheckpointFacts | None) -> Finding:
    """Missing files cost time, damaged ones must not be served."""
    if checkpoint is None:
        return not_listed(facts, profile)
    damaged = [f for f in checkpoint.files if f.state == "damaged"]
    if damaged:
        return _damaged(damaged, profile)
    missing = [f for f in checkpoint.files if f.state in ("absent", "partial")]
    listing = checkpoint.listing
    pinned = f"{listing.repo}@{listing.commit[:12]}"
    if missing:
        return Finding(
            "warn",
            f"{len(missing)} of {count(len(checkpoint.files), 'file')} of {pinned} are not here yet, "
            f"{show_bytes(checkpoint.missing_bytes)} to fetch",
            wanted="every listed file",
            why="boot fetches them first, so it needs the network",
            hint=f"`kboot fetch{asked(profile)}`",
        )
    if not checkpoint.published:
        return Finding(
            "warn",
            f"all {count(len(checkpoint.files), 'file')} of {pinned} are here, but the serving path leads elsewhere",
            wanted="models/<profile> points at the snapshot",
            why="an engine would find nothing or an older commit until the next boot",
            hint=f"`kboot fetch{asked(profile)}`",
        )
    found = f"{count(len(checkpoint.files), 'file')} of {pinned}, {show_bytes(listing.size_bytes)}"
    shared = sum(f.state == "shared" for f in checkpoint.files)
    return Finding("ok", f"{found}; of {shared} what this node's ranks load" if shared else found)


def not_listed(facts: NodeFacts, profile: Profile | None) -> Finding:
    """Return the answer where nothing on this disk lists the checkpoint: nobody knows which files are wanted."""
    if profile is None:
        return Finding("skip", "no profile says which checkpoint")
    if unread(facts, "checkpoint"):
        return Finding("unknown", f"the checkpoint could not be looked at ({gap_reason(facts, 'checkpoint')})")
    return Finding(
        "unknown",
        f"nothing on this disk lists {profile.checkpoint.repo}@{profile.checkpoint.revision[:12]}, "
        "and doctor asks no network for it",
        wanted="trees/<commit>.json of the pinned commit",
        hint=f"`kboot fetch{asked(profile)}`",
    )


def asked(profile: Profile | None) -> str:
    """Return the option that names the profile in a command, with a space before it."""
    return f" --profile {profile.name}" if profile else ""


def _damaged(damaged: list[LocalFile], profile: Profile | None) -> Finding:
    each = some((f"{f.file.path} ({f.why or 'wrong bytes'})" for f in damaged), 3)
    return Finding(
        "fail",
        f"{count(len(damaged), 'file')} damaged: {each}",
        wanted="the bytes of the pinned commit",
        why="an engine that loads them crashes or answers wrongly",
        hint=f"`kboot verify{asked(profile)} --repair`",
    )


CHECK = Check(
    id="ckpt.complete",
    asks="Is every file of the pinned commit on this disk, whole?",
    source="trees/<commit>.json; sizes and structure under the snapshot folder",
    modes=EVERYWHERE,
    run=run,
)
