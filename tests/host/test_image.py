"""A tree that is to become an image is read and changed without ever leaving it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kboot.errors import KbootError
from kboot.host.image import ImageTree, is_same_folder


def tree_of(folder: Path) -> ImageTree:
    root = folder / "image"
    (root / "etc").mkdir(parents=True)
    return ImageTree(root)


def test_a_link_is_followed_inside_the_tree_only(tmp_path: Path) -> None:
    """`/var/run -> /run` means the image's /run, and a link that climbs out ends at the image's root."""
    tree = tree_of(tmp_path)
    (tmp_path / "secret").write_text("outside")
    (tree.root / "run").mkdir()
    (tree.root / "run/a").write_text("inside")
    (tree.root / "var").symlink_to("/run")
    (tree.root / "up").symlink_to("../../..")

    assert ("a",) == tree.names("var")
    assert b"inside" == tree.read("var/a", 100)
    assert ("etc", "run", "up", "var") == tree.names("up")


def test_removing_through_a_planted_link_touches_nothing_outside(tmp_path: Path) -> None:
    """A home that is a link to the builder's own is the same path inside the image, where there is nothing."""
    tree = tree_of(tmp_path)
    outside = tmp_path / "home"
    outside.mkdir()
    (outside / ".netrc").write_text("machine x")
    (tree.root / "root").symlink_to(outside)
    tree.remove("root/.netrc")
    (tree.root / "file").symlink_to(outside / ".netrc")
    tree.remove("file", wipe=True)

    assert "machine x" == (outside / ".netrc").read_text()
    assert not (tree.root / "file").is_symlink()


def test_the_last_name_is_never_followed(tmp_path: Path) -> None:
    """A link is seen as a link; it is neither read nor written through."""
    tree = tree_of(tmp_path)
    (tmp_path / "target").write_text("outside")
    (tree.root / "etc/link").symlink_to(tmp_path / "target")
    with pytest.raises(OSError):
        tree.read("etc/link", 10)
    tree.write("etc/link", b"new")
    found = tree.look("etc/link")

    assert "outside" == (tmp_path / "target").read_text()
    assert found is not None
    assert ("file", 3) == (found.kind, found.size_bytes)


def test_a_rewritten_file_keeps_its_mode(tmp_path: Path) -> None:
    """0600 stays 0600; a mode that is given is taken; a new file is readable."""
    tree = tree_of(tmp_path)
    (tree.root / "etc/a").write_text("one")
    (tree.root / "etc/a").chmod(0o600)
    tree.write("etc/a", b"two")
    tree.write("etc/b", b"")
    tree.write("etc/c", b"", 0o444)
    modes = [(tree.root / "etc" / name).stat().st_mode & 0o777 for name in "abc"]

    assert [0o600, 0o644, 0o444] == modes
    assert ["a", "b", "c"] == sorted(os.listdir(tree.root / "etc"))


def test_what_is_wiped_is_overwritten_where_it_lies(tmp_path: Path) -> None:
    """Who has the file open still sees zeros: the bytes themselves are gone from the disk, not only the name."""
    tree = tree_of(tmp_path)
    (tree.root / "etc/token").write_bytes(b"secret")
    with open(tree.root / "etc/token", "rb") as still_open:
        tree.remove("etc/token", wipe=True)

        assert bytes(6) == still_open.read()
    assert None is tree.look("etc/token")


def test_a_folder_goes_with_all_below_it_and_a_missing_one_is_fine(tmp_path: Path) -> None:
    """Removing twice is removing once."""
    tree = tree_of(tmp_path)
    (tree.root / "etc/deep/er").mkdir(parents=True)
    (tree.root / "etc/deep/er/file").touch()
    for _ in range(2):
        tree.remove("etc/deep")

    assert () == tree.names("etc")


def test_a_walk_sees_files_and_folders_in_order_and_passes_by_what_it_is_told(tmp_path: Path) -> None:
    """Links are seen and not followed."""
    tree = tree_of(tmp_path)
    (tree.root / "etc/b/in").mkdir(parents=True)
    (tree.root / "etc/a").touch()
    (tree.root / "etc/c").symlink_to("b")
    seen = [(entry.path, entry.kind) for entry in tree.walk("etc", lambda folder: folder.path.endswith("/in"))]

    assert [("etc/a", "file"), ("etc/b", "folder"), ("etc/c", "link"), ("etc/b/in", "folder")] == seen


def test_links_are_made_with_the_folders_above_them(tmp_path: Path) -> None:
    """As `systemctl enable` does, also a second time."""
    tree = tree_of(tmp_path)
    for _ in range(2):
        tree.make_link("etc/systemd/system/multi-user.target.wants/a.service", "/usr/lib/a.service")

    assert "/usr/lib/a.service" == tree.link_target("etc/systemd/system/multi-user.target.wants/a.service")


def test_the_root_itself_is_no_name_in_it(tmp_path: Path) -> None:
    """Nothing removes the whole tree, or what is above it."""
    tree = tree_of(tmp_path)
    for path in ("", "/", "etc/..", "."):
        with pytest.raises(KbootError):
            tree.remove(path)

    assert ("etc",) == tree.names("")


def test_links_in_a_circle_end(tmp_path: Path) -> None:
    """Forty links are followed, as the kernel does."""
    tree = tree_of(tmp_path)
    (tree.root / "a").symlink_to("b")
    (tree.root / "b").symlink_to("a")
    with pytest.raises(OSError):
        tree.names("a/x")


def test_two_names_of_one_folder(tmp_path: Path) -> None:
    """A link to a folder is that folder; one that is not there is none."""
    (tmp_path / "link").symlink_to(tmp_path)

    assert is_same_folder(tmp_path, tmp_path / "link")
    assert not is_same_folder(tmp_path, tmp_path / "absent")
