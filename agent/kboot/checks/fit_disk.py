"""Is there disk space for what must still be fetched?"""

from __future__ import annotations

from kboot.checkpoint import CheckpointFacts
from kboot.checks.asked import gap_reason
from kboot.checks.types import EVERYWHERE, Check, Finding
from kboot.checks.words import count
from kboot.facts.basic_types import Mount
from kboot.facts.types import NodeFacts
from kboot.profile.types import Profile
from kboot.quantities import show_bytes

MARGIN_BYTES = 1 << 30
"""Kept free beside the checkpoint: ledger, records, kernel caches, a log."""
MARGIN_INODES = 1000
LEAST_BYTES = 128 << 20
"""Without so much not even the ledger, a boot's records and a compiled kernel find room."""


def run(facts: NodeFacts, profile: Profile | None, checkpoint: CheckpointFacts | None) -> Finding:
    """Compare the missing bytes with what this user may still write on the file system of the state folder."""
    mount = next((m for m in facts.mounts if m.role == "state"), None)
    if mount is None or mount.free_bytes is None:
        return Finding(
            "unknown",
            f"free space for the state folder could not be read ({gap_reason(facts, 'mounts.state', 'mounts')})",
        )
    if mount.free_inodes is not None and mount.total_bytes and 0 < mount.free_inodes < MARGIN_INODES:
        return _no_inodes(mount)
    seen = f"{show_bytes(mount.free_bytes)} free on {mount.mount_point}"
    if mount.total_bytes and mount.free_bytes < LEAST_BYTES:
        return _full(seen, mount)
    if profile is None:
        return Finding("ok", f"{seen}; no profile says how much is needed")
    if checkpoint is None:
        return _by_published_size(seen, mount.free_bytes, profile)
    missing = checkpoint.disk_bytes
    if missing and profile.fleet.fetch == "local-experts":
        return _in_part(seen, missing, mount.free_bytes)
    if missing and mount.free_bytes < missing + MARGIN_BYTES:
        return _too_small(seen, missing, mount)
    return Finding("ok", f"{seen}; {show_bytes(missing)} still to fetch")


def _in_part(seen: str, missing: int, free: int) -> Finding:
    """Answer where a boot may fetch a part of what is missing: how much that is depends on the node's place."""
    if free >= missing + MARGIN_BYTES:
        return Finding("ok", f"{seen}; at most {show_bytes(missing)} still to fetch")
    return Finding(
        "unknown",
        f"{seen}; {show_bytes(missing)} are not here, of which this node fetches a part (fleet.fetch)",
        wanted="room for the part that its ranks load",
        why="which that is depends on its place in the fleet; boot looks before it fetches",
        hint="`kboot plan` says how much it is",
    )


def _by_published_size(seen: str, free: int, profile: Profile) -> Finding:
    published = profile.model.size_bytes
    if published is None:
        return Finding(
            "unknown", f"{seen}; nothing on this disk lists {profile.checkpoint.repo} yet, so need is unknown"
        )
    if free < published + MARGIN_BYTES:
        return Finding(
            "warn",
            f"{seen}; {profile.checkpoint.repo} is published as {show_bytes(published)}; nothing of it is listed here",
            wanted=f"{show_bytes(published + MARGIN_BYTES)} free",
            why="boot will refuse before the first byte",
            hint="free space, or point state_dir in kboot.toml at a larger disk",
        )
    return Finding("ok", f"{seen}; {profile.checkpoint.repo} is published as {show_bytes(published)}")


def _too_small(seen: str, missing: int, mount: Mount) -> Finding:
    return Finding(
        "fail",
        f"{seen}; {show_bytes(missing)} still to fetch",
        wanted=f"{show_bytes(missing + MARGIN_BYTES)} free",
        why="boot refuses before the first byte",
        hint=f"`du -xh -d1 {mount.path} | sort -h` shows what is there; or a larger disk (state_dir in kboot.toml)",
    )


def _full(seen: str, mount: Mount) -> Finding:
    return Finding(
        "fail",
        f"{seen} of {show_bytes(mount.total_bytes or 0)}: it is full",
        wanted=f"{show_bytes(LEAST_BYTES)} free, whatever is still to fetch",
        why="nothing can be recorded, handed off or compiled",
        hint=f"`du -xh -d2 {mount.mount_point} | sort -h | tail` shows what is there; `kboot cache gc`",
    )


def _no_inodes(mount: Mount) -> Finding:
    return Finding(
        "fail",
        f"{count(mount.free_inodes or 0, 'inode')} free on {mount.mount_point}",
        wanted=f"{MARGIN_INODES} free",
        why="no file can be made although there is space",
        hint=f"`du -x --inodes -d2 {mount.mount_point} | sort -n | tail` shows the folders with most files",
    )


CHECK = Check(
    id="fit.disk",
    asks="Is there disk space for what must still be fetched?",
    source="statvfs of the state folder; the pinned listing and what this disk holds of it",
    modes=EVERYWHERE,
    run=run,
)
