"""Can builds exclude each other in the cache folder, and replace files that are in use?"""

from __future__ import annotations

from kboot.checkpoint import CheckpointFacts
from kboot.checks.asked import gap_reason, unread
from kboot.checks.types import Check, Finding
from kboot.facts.types import NodeFacts
from kboot.profile.types import Profile


def run(facts: NodeFacts, profile: Profile | None, checkpoint: CheckpointFacts | None) -> Finding:
    """Compilers of several workers share one folder; what they rely on is tried there."""
    if profile is not None and not profile.cache.enabled:
        return Finding("skip", "the profile keeps no kernel caches")
    tried = facts.measured.folder
    if tried is None:
        return not_tried(facts)
    off = [fault for fault in tried if not fault.startswith("mtime")]
    if not off:
        return Finding("ok", "locks, renames over open files and mapped code work there")
    return Finding(
        "warn",
        "; ".join(off),
        wanted="flock, rename and executable mappings that work",
        why="two workers build the same kernel into each other's files, or wait for each other without end",
        hint="put state_dir of kboot.toml on a local disk; `kboot cache export` carries caches between nodes",
    )


def not_tried(facts: NodeFacts) -> Finding:
    """Return the answer where nothing was tried in the cache folder."""
    if unread(facts, "measured.samples"):
        return Finding("unknown", f"not tried ({gap_reason(facts, 'measured.samples')})")
    return Finding("skip", "there is no cache folder yet, or it is not this user's to write")


CHECK = Check(
    id="cache.locking",
    asks="Can builds exclude each other in the cache folder, and replace files that are in use?",
    source="measured: locks, renames and mappings of a test file in the cache folder",
    modes=frozenset({"full", "deep"}),
    run=run,
)
