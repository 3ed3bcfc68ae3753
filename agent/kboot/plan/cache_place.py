"""Is the place of the kernel caches one that keeps them?"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kboot.facts.basic_types import Mount

_SHARED = ("nfs", "cifs", "smb", "gpfs", "lustre", "ceph", "beegfs", "wekafs", "glusterfs", "9p", "virtiofs", "fuse.")
_MEMORY = ("tmpfs", "ramfs")
_CONTAINER = ("overlay", "aufs", "fuse-overlayfs", "fuse.fuse-overlayfs")


def place_warnings(mounts: Iterable[Mount]) -> tuple[str, ...]:
    """Return what the file system of the caches means for them, with the evidence; empty for a local disk."""
    return tuple(
        f"the kernel caches are in {m.path}, on {m.fs_type} ({m.device} at {m.mount_point}): {why}"
        for m in mounts
        if m.role == "cache" and (why := _why(m.fs_type))
    )


def _why(fs_type: str) -> str:
    if fs_type in _CONTAINER:
        return "they go with the container; mount a local disk there"
    if fs_type in _MEMORY:
        return "they take memory and are gone after a reboot; put the state folder on a local disk"
    if fs_type.startswith(_SHARED):
        return (
            "locks and times there may be another machine's, so that builds hang or start over (67 s of skew rebuilt "
            "180 files at each start, flashinfer#3579); use a local disk, and carry them with `kboot cache export`"
        )
    return ""
