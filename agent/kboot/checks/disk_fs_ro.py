"""Can kboot write where it keeps its state?"""

from __future__ import annotations

from kboot.checkpoint import CheckpointFacts
from kboot.checks.asked import gap_reason
from kboot.checks.types import EVERYWHERE, Check, Finding
from kboot.checks.words import some
from kboot.facts.types import NodeFacts
from kboot.profile.types import Profile


def run(facts: NodeFacts, profile: Profile | None, checkpoint: CheckpointFacts | None) -> Finding:
    """A file system that is mounted read-only is usually one the kernel remounted after an error."""
    if not all(m.mount_point for m in facts.mounts) or not facts.mounts:
        return Finding("unknown", f"the mounts could not be read ({gap_reason(facts, 'mounts')})")
    stuck = [m for m in facts.mounts if m.read_only]
    if not stuck:
        return Finding("ok", f"writable: {some(sorted({m.mount_point for m in facts.mounts}))}")
    points = sorted({m.mount_point for m in stuck})
    return Finding(
        "fail",
        f"read-only: {some(f'{m.mount_point} ({m.device}, {m.fs_type}; {m.role})' for m in stuck)}",
        wanted="mounted read-write",
        why="nothing can be fetched, recorded or handed off",
        hint=f"`dmesg | grep -i -e remount -e 'i/o error'`; after fsck `mount -o remount,rw {points[0]}`",
    )


CHECK = Check(
    id="disk.fs_ro",
    asks="Can kboot write where it keeps its state?",
    source="/proc/self/mountinfo",
    modes=EVERYWHERE,
    run=run,
)
