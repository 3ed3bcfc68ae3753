"""Is a tree that is to be sealed the one we run in, and which file systems are the image's?"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from kboot.facts.mounts import MOUNTINFO, parse_mountinfo
from kboot.facts.os import collect_os
from kboot.host.image import ImageTree, is_same_folder
from kboot.host.types import Host

_THIS_ROOT = Path("/")


def is_this_root(root: Path) -> bool:
    """Return whether a folder is what this process calls "/"."""
    return is_same_folder(root, _THIS_ROOT)


def image_devices(tree: ImageTree, host: Host) -> frozenset[int]:
    """Return the devices whose files belong to the image: its root's, and those of disks that are mounted below it.

    What is mounted into a container is the host's; a bind mount is a part of something else.

    Source: /proc/self/mountinfo of this machine.
    """
    found = {tree.device()}
    os, _ = collect_os(host)
    if os.container is not None and is_this_root(tree.root):
        return frozenset(found)
    top = str(tree.root.resolve()).rstrip("/")
    text = ""
    with suppress(OSError):
        text = host.read_text(MOUNTINFO)
    for mount in parse_mountinfo(text):
        if mount.root == "/" and mount.device.startswith("/dev/") and mount.mount_point.startswith(f"{top}/"):
            with suppress(OSError):
                found.add(tree.device(mount.mount_point[len(top) :].strip("/")))
    return frozenset(found)
