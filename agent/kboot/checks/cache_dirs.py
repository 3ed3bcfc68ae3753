"""May compiled kernels be run from the cache's folder, and changed by the engine's user?"""

from __future__ import annotations

from kboot.checkpoint import CheckpointFacts
from kboot.checks.asked import gap_reason
from kboot.checks.types import EVERYWHERE, Check, Finding
from kboot.checks.words import some
from kboot.facts.types import NodeFacts
from kboot.profile.types import Profile


def run(facts: NodeFacts, profile: Profile | None, checkpoint: CheckpointFacts | None) -> Finding:
    """Caches hold shared objects, which a noexec mount refuses to load."""
    if profile is not None and not profile.cache.enabled:
        return Finding("skip", "the profile keeps no kernel caches")
    if facts.system.noexec is None:
        return Finding("unknown", f"the mounts could not be read ({gap_reason(facts, 'mounts')})")
    if facts.system.noexec:
        return Finding(
            "fail",
            f"{some(facts.system.noexec)} is mounted noexec",
            wanted="a mount without noexec",
            why="compiled kernels (.so) cannot be loaded: 'failed to map segment from shared object'",
            hint=f"`mount -o remount,exec {facts.system.noexec[0]}` and /etc/fstab, or another state_dir in kboot.toml",
        )
    scan = facts.caches.scan
    if scan is not None and scan.unwritable is not None:
        where = scan.unwritable
        more = f" and {where.count - 1} more" if where.count > 1 else ""
        return Finding(
            "fail",
            f"{where.path or '.'} (uid {where.uid}, mode {where.mode}){more} cannot be changed by the engine's user",
            wanted="owned by the engine's user",
            why="the engine ends with 'Permission denied' where it must write, or compiles again at every boot",
            hint=f"`chown -R` the folder of {where.path} to the user of kboot-engine.service",
        )
    return Finding("ok", "the cache's mount runs files")


CHECK = Check(
    id="cache.dirs",
    asks="May compiled kernels be run from the cache's folder, and changed by the engine's user?",
    source="/proc/self/mountinfo; the scan of the key's folder",
    modes=EVERYWHERE,
    run=run,
)
