"""Is a tree that is to be sealed the one we run in, and which file systems are the image's?"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from kboot.facts.mounts import MOUNTINFO, MountLine, parse_mountinfo
from kboot.facts.os import collect_os
from kboot.host.image import Entry, ImageTree, is_same_folder
from kboot.host.types import Host
from kboot.values import dataclass

_THIS_ROOT = Path("/")


def is_this_root(root: Path) -> bool:
    """Return whether a folder is what this process calls "/"."""
    return is_same_folder(root, _THIS_ROOT)


@dataclass(frozen=True, slots=True)
class ImageGround:
    """Which files below a tree's root are the image's.

    devices: of its file systems. others: folders, without a leading slash, on which something else is mounted: a bind
    mount of the builder's own files may be on the very same device.
    """

    devices: frozenset[int]
    others: tuple[str, ...] = ()

    def has(self, entry: Entry) -> bool:
        """Return whether something belongs to the image."""
        if entry.device not in self.devices:
            return False
        return not any(entry.path == other or entry.path.startswith(f"{other}/") for other in self.others)


def image_ground(tree: ImageTree, host: Host) -> ImageGround:
    """Return what belongs to the image: its root's file system, and those of disks that are mounted below it.

    What is mounted into a container is the host's; a bind mount is a part of something else.

    Source: /proc/self/mountinfo of this machine.
    """
    found, others = {tree.device()}, set()
    os, _ = collect_os(host)
    in_container = os.container is not None and is_this_root(tree.root)
    top = str(tree.root.resolve()).rstrip("/")
    text = ""
    with suppress(OSError):
        text = host.read_text(MOUNTINFO)
    for mount in parse_mountinfo(text):
        path = mount.mount_point[len(top) :].strip("/")
        if not mount.mount_point.startswith(f"{top}/") or not path:
            continue
        device = None if in_container or not is_whole_disk(mount) else _device(tree, path)
        if device is None or device == tree.device():
            others.add(path)
        else:
            found.add(device)
    return ImageGround(frozenset(found), tuple(sorted(others)))


def is_whole_disk(mount: MountLine) -> bool:
    """Return whether a whole file system of a disk is mounted, or a whole subvolume of one."""
    whole = mount.root == "/" or f"subvol={mount.root}" in mount.super_options
    return whole and mount.device.startswith("/dev/")


def _device(tree: ImageTree, path: str) -> int | None:
    with suppress(OSError):
        return tree.device(path)
    return None
