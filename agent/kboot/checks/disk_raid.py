"""Is every RAID whole?"""

from __future__ import annotations

from kboot.checkpoint import CheckpointFacts
from kboot.checks.types import ON_A_NODE, Check, Finding
from kboot.checks.words import count, some
from kboot.facts.types import NodeFacts
from kboot.profile.types import Profile


def run(facts: NodeFacts, profile: Profile | None, checkpoint: CheckpointFacts | None) -> Finding:
    """A RAID that lacks members is slow, or one failure from gone."""
    raids = [d for d in facts.disks if d.kind == "raid"]
    if not raids:
        return Finding("skip", "there is no software RAID")
    broken = [d for d in raids if d.degraded]
    if not broken:
        known = some(f"{d.name} ({d.raid_level or 'unknown level'}, {count(len(d.members), 'member')})" for d in raids)
        return Finding("ok", f"whole: {known}")
    return Finding(
        "warn",
        some(f"{d.name} ({d.raid_level}) lacks {count(d.degraded or 0, 'member')}" for d in broken),
        wanted="no missing member",
        why="reading is slower while it rebuilds, and the next failure loses the checkpoint",
        hint="`cat /proc/mdstat`; `mdadm --manage /dev/mdN --add /dev/DISK`",
    )


CHECK = Check(
    id="disk.raid",
    asks="Is every RAID whole?",
    source="/sys/block/md*/md/{degraded,level}",
    modes=ON_A_NODE,
    run=run,
)
