"""Is the place of the kernel caches one that keeps them?"""

from __future__ import annotations

import pytest

from kboot.facts.types import Mount
from kboot.plan.cache_place import place_warnings


def mount(fs_type: str, role: str = "cache") -> Mount:
    """The cache folder on a file system of this type."""
    return Mount(role, "/var/lib/kboot/cache", "/var/lib", fs_type, "filer:/x", False, 1, 1, 1)


@pytest.mark.parametrize("fs_type", ["ext4", "xfs", "btrfs", "zfs", ""])
def test_a_local_disk_is_fine(fs_type: str) -> None:
    """So is one that could not be read: that is a gap, not a warning."""
    assert () == place_warnings([mount(fs_type)])


@pytest.mark.parametrize(
    ("fs_type", "words"),
    [
        ("nfs4", "another machine's"),
        ("gpfs", "another machine's"),
        ("fuse.sshfs", "another machine's"),
        ("tmpfs", "gone after a reboot"),
        ("overlay", "go with the container"),
        ("fuse.fuse-overlayfs", "go with the container"),
    ],
)
def test_b111_b117_b123_others_are_warned_of_with_the_evidence(fs_type: str, words: str) -> None:
    """B111, B117: times and locks of a file server; B123: memory. The mount is named."""
    (warning,) = place_warnings([mount(fs_type), mount(fs_type, "state")])

    assert words in warning
    assert f"on {fs_type} (filer:/x at /var/lib)" in warning
