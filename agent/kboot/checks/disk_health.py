"""Do the disks themselves call their state good?"""

from __future__ import annotations

from kboot.checkpoint import CheckpointFacts
from kboot.checks.types import ON_A_NODE, Check, Finding
from kboot.checks.words import count, some
from kboot.facts.types import NodeFacts
from kboot.facts.upkeep_types import DiskHealth
from kboot.profile.types import Profile

WORN_PERCENT = 100
LEAST_SPARE_PERCENT = 10
NO_ANSWER = "no answer"


def run(facts: NodeFacts, profile: Profile | None, checkpoint: CheckpointFacts | None) -> Finding:
    """A disk tells of its end before it comes; one that is read-only or unreliable loses the checkpoint."""
    upkeep = facts.upkeep
    if not upkeep.smart_tool:
        return _nobody_asked(facts)
    bad = [(disk, why) for disk in upkeep.disks if (why := _why(disk))]
    if bad:
        dying = any(disk.passed is False or disk.warnings for disk, _ in bad)
        return Finding(
            "fail" if dying else "warn",
            some(f"{disk.name}: {why}" for disk, why in bad),
            wanted=f"no warning, no media error, less than {WORN_PERCENT} % of its life used",
            why="shards on it may become unreadable, and writing may stop at any time"
            if dying
            else "it still works; plan to replace it before it fails during a boot",
            hint=f"`{_command(upkeep.smart_tool, bad[0][0].name)}`; `kboot verify --mode full`; replace the disk",
        )
    late = [disk for disk in upkeep.disks if disk.refused.startswith(NO_ANSWER)]
    if late:
        return Finding(
            "unknown",
            some(f"{disk.name}: {disk.refused}" for disk in late),
            wanted="an answer of every disk",
            hint=f"`{_command(upkeep.smart_tool, late[0].name)}`; a disk that does not answer may be about to fail",
        )
    told = [disk for disk in upkeep.disks if not disk.refused]
    if not told:
        reasons = some(sorted({disk.refused for disk in upkeep.disks})) or "they sleep"
        return Finding("skip", f"the disks tell nothing of their health, as virtual ones do ({reasons})")
    worn = max(disk.used_percent or 0 for disk in told)
    return Finding("ok", f"{count(len(told), 'disk')} sound, the most worn has used {worn} % of its life")


def _why(disk: DiskHealth) -> str:
    words = [*disk.warnings]
    if disk.passed is False and not disk.warnings:
        words.append("its own verdict is FAILED")
    if disk.media_errors:
        words.append(count(disk.media_errors, "media error"))
    if disk.pending_sectors:
        words.append(f"{count(disk.pending_sectors, 'sector')} cannot be read")
    if disk.spare_percent is not None and disk.spare_percent < LEAST_SPARE_PERCENT:
        words.append(f"{disk.spare_percent} % of its spare blocks left")
    if (disk.used_percent or 0) >= WORN_PERCENT:
        words.append(f"{disk.used_percent} % of its life used")
    return ", ".join(words)


def _command(tool: str, name: str) -> str:
    return f"smartctl --all /dev/{name}" if tool == "smartctl" else f"nvme smart-log /dev/{name}"


def _nobody_asked(facts: NodeFacts) -> Finding:
    """Virtual disks have no health to tell, and a container or another user is not shown it."""
    real = [d for d in facts.disks if d.kind == "nvme" or (d.kind == "disk" and not d.name.startswith(("vd", "xvd")))]
    if not real:
        return Finding("skip", "this machine has no disk with a controller of its own")
    if facts.os.uid != 0:
        return Finding("skip", "SMART can be read by root only: `sudo kboot doctor`")
    if facts.os.container:
        return Finding("skip", f"in a container ({facts.os.container}) the disks belong to the host")
    return Finding("skip", "neither smartctl nor nvme is installed (smartmontools, nvme-cli)")


CHECK = Check(
    id="disk.health",
    asks="Do the disks themselves call their state good?",
    source="SMART: smartctl --json, or nvme smart-log",
    modes=ON_A_NODE,
    run=run,
)
