"""Do files in the cache folder get this machine's time?"""

from __future__ import annotations

from kboot.checkpoint import CheckpointFacts
from kboot.checks.cache_locking import not_tried
from kboot.checks.types import Check, Finding
from kboot.facts.types import NodeFacts
from kboot.profile.types import Profile


def run(facts: NodeFacts, profile: Profile | None, checkpoint: CheckpointFacts | None) -> Finding:
    """Builds compare such times with each other; those of a file server rebuild everything at each start."""
    if profile is not None and not profile.cache.enabled:
        return Finding("skip", "the profile keeps no kernel caches")
    tried = facts.measured.folder
    if tried is None:
        return not_tried(facts)
    off = [fault for fault in tried if fault.startswith("mtime")]
    if not off:
        return Finding("ok", "a file written now has this machine's time, and keeps the one it is given")
    return Finding(
        "warn",
        "; ".join(off),
        wanted="this machine's time, to the nanosecond",
        why="67 s of skew rebuilt 180 files at each start, 1.5 hours (flashinfer#3579)",
        hint="put state_dir of kboot.toml on a local disk; `kboot cache export` carries caches between nodes",
    )


CHECK = Check(
    id="time.mtime_skew",
    asks="Do files in the cache folder get this machine's time?",
    source="measured: a file written, looked at and removed in the cache folder",
    modes=frozenset({"full", "deep"}),
    run=run,
)
