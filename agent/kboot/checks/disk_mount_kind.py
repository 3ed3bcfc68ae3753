"""Are checkpoint and kernel caches on a local disk that outlives the boot?"""

from __future__ import annotations

from kboot.checkpoint import CheckpointFacts
from kboot.checks.asked import gap_reason
from kboot.checks.types import EVERYWHERE, Check, Finding
from kboot.checks.words import some
from kboot.facts.basic_types import Mount
from kboot.facts.types import NodeFacts
from kboot.plan.loading import CONTAINER, LOCAL, MEMORY
from kboot.profile.types import Profile


def run(facts: NodeFacts, profile: Profile | None, checkpoint: CheckpointFacts | None) -> Finding:
    """Judge the file system types of the state and cache folders; the runtime folder belongs in memory."""
    kept = [m for m in facts.mounts if m.role in ("state", "cache")]
    if not kept or not all(m.fs_type for m in kept):
        return Finding("unknown", f"the mounts could not be read ({gap_reason(facts, 'mounts')})")
    off = [m for m in kept if m.fs_type not in LOCAL]
    if not off:
        return Finding("ok", some(sorted({f"{m.mount_point} is {m.fs_type}" for m in kept})))
    return Finding(
        "warn",
        some(f"{m.path} ({m.role}) is on {m.fs_type}" for m in off) + ", a local disk is wanted",
        wanted=f"one of {', '.join(sorted(LOCAL))}",
        why="; ".join(sorted({_why(m) for m in off})),
        hint="mount a local disk at the state folder, or set state_dir in kboot.toml to one",
    )


def _why(mount: Mount) -> str:
    if mount.fs_type in MEMORY:
        return f"{mount.fs_type} takes memory from the engine and is empty after a reboot"
    if mount.fs_type in CONTAINER:
        return f"{mount.fs_type} goes with the container: every start fetches and compiles again"
    return (
        f"on {mount.fs_type} mapped loading can fall to 29 MB/s, and locks and times, on which kernel caches rely, "
        "may be another machine's"
    )


CHECK = Check(
    id="disk.mount_kind",
    asks="Are checkpoint and kernel caches on a local disk that outlives the boot?",
    source="/proc/self/mountinfo",
    modes=EVERYWHERE,
    run=run,
)
