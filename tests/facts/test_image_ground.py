"""Which files below a root belong to the image, and which are only mounted there?"""

from __future__ import annotations

from pathlib import Path

import pytest

from kboot.facts.image_ground import ImageGround, image_ground, is_whole_disk
from kboot.facts.mounts import parse_mountinfo
from kboot.host.image import Entry, ImageTree
from kboot.host.recorded import RecordedHost


def ground(root: Path, *mounts: str) -> ImageGround:
    """Look at a tree on a machine that has these lines in its mountinfo."""
    machine = root.parent / "machine"
    (machine / "proc/self").mkdir(parents=True)
    (machine / "proc/self/mountinfo").write_text("".join(f"{line}\n" for line in mounts))
    return image_ground(ImageTree(root), RecordedHost(machine))


def test_what_is_bound_into_the_tree_is_somebody_elses(tmp_path: Path) -> None:
    """A checkout on the same disk, a tmpfs, and the same file system once more; a disk's own place is the image's."""
    root = tmp_path / "image"
    for name in ("opt/src", "tmp", "again", "data"):
        (root / name).mkdir(parents=True)
    found = ground(
        root,
        f"30 20 254:0 /home/me/src {root}/opt/src rw - ext4 /dev/vda rw",
        f"31 20 0:40 / {root}/tmp rw - tmpfs tmpfs rw",
        f"32 20 254:0 / {root}/again rw - ext4 /dev/vda rw",
        "33 20 254:0 / /elsewhere rw - ext4 /dev/vda rw",
    )
    device = root.stat().st_dev

    assert ImageGround(frozenset({device}), ("again", "opt/src", "tmp")) == found
    assert found.has(Entry("data/a", "file", 1, device))
    assert found.has(Entry("temporary", "file", 1, device))
    assert not found.has(Entry("opt/src/.env", "file", 1, device))
    assert not found.has(Entry("data/a", "file", 1, device + 1))


@pytest.mark.parametrize(
    ("line", "whole"),
    [
        ("30 20 8:1 / /i/home rw - ext4 /dev/sda1 rw", True),
        ("30 20 0:33 /@home /i/home rw - btrfs /dev/sdb rw,subvol=/@home", True),
        ("30 20 0:33 /@home/me /i/home rw - btrfs /dev/sdb rw,subvol=/@home", False),
        ("30 20 8:1 /srv /i/srv rw - ext4 /dev/sda1 rw", False),
        ("30 20 0:40 / /i/tmp rw - tmpfs tmpfs rw", False),
    ],
)
def test_a_disk_and_a_subvolume_of_one_are_mounted_whole(line: str, whole: bool) -> None:
    """Homes on a file system of their own go out with the image as well; a part of one is bound from elsewhere."""
    (mount,) = parse_mountinfo(line)

    assert whole is is_whole_disk(mount)
