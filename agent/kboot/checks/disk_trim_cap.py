"""Is the disk told which blocks are free, and has it room to work with?"""

from __future__ import annotations

from kboot.checkpoint import CheckpointFacts
from kboot.checks.asked import gap_reason
from kboot.checks.types import ON_A_NODE, Check, Finding
from kboot.facts.types import NodeFacts
from kboot.profile.types import Profile
from kboot.quantities import show_bytes

FULL_PERCENT = 80
VERY_FULL_PERCENT = 97


def run(facts: NodeFacts, profile: Profile | None, checkpoint: CheckpointFacts | None) -> Finding:
    """An SSD without free blocks moves old data before it takes new: writes fall to a tenth."""
    mount = next((m for m in facts.mounts if m.role == "state"), None)
    if mount is None or mount.total_bytes is None or mount.free_bytes is None:
        return Finding("unknown", f"the state folder's file system could not be read ({gap_reason(facts, 'mounts')})")
    discard = facts.upkeep.discard
    if discard is None:
        return Finding("skip", f"{mount.mount_point} is on no disk whose block device is known ({mount.device})")
    used = 100 * (1 - mount.free_bytes / max(1, mount.total_bytes))
    seen = f"{mount.mount_point} is {used:.0f} % full, {show_bytes(mount.free_bytes)} free"
    told = not discard.supported or discard.mounted or discard.timer
    if used < FULL_PERCENT or (told and used < VERY_FULL_PERCENT):
        how = "by its mount option" if discard.mounted else "by fstrim.timer" if discard.timer else "by nobody"
        return Finding("ok", f"{seen}; free blocks are told {how if discard.supported else 'to no such disk'}")
    return Finding(
        "warn",
        seen + ("" if told else "; nobody tells the disk which blocks are free"),
        wanted=f"less than {VERY_FULL_PERCENT if told else FULL_PERCENT} % full"
        + ("" if told else ", or fstrim.timer enabled"),
        why="a full SSD writes at a fraction of its rate: fetching and filling kernel caches take longer",
        hint="`kboot cache gc`, remove commits nobody serves, or a larger disk"
        if told
        else f"`systemctl enable --now fstrim.timer`, or `fstrim -v {mount.mount_point}` once",
    )


CHECK = Check(
    id="disk.trim_cap",
    asks="Is the disk told which blocks are free, and has it room to work with?",
    source="statvfs; /sys/block/*/queue/discard_max_bytes; mount options; fstrim.timer",
    modes=ON_A_NODE,
    run=run,
)
