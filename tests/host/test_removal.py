"""A folder goes with all below it, and nothing else does."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kboot.host.removal import remove_folder


def test_a_folder_goes_with_all_that_it_holds(tmp_path: Path) -> None:
    """Files, folders, pipes and links in any depth; what a link leads to stays."""
    top, kept = tmp_path / "top", tmp_path / "kept"
    (kept / "b").mkdir(parents=True)
    (top / "a/b/c").mkdir(parents=True)
    (top / "a/b/c/file").write_text("x")
    (top / "a/empty").mkdir()
    (top / "a/link").symlink_to(kept)
    (top / "dangling").symlink_to("nowhere")
    os.mkfifo(top / "a/b/pipe")
    remove_folder(str(top))

    assert (["kept"], ["b"]) == (os.listdir(tmp_path), os.listdir(kept))


def test_a_folder_may_be_deeper_than_python_or_the_descriptors_reach(tmp_path: Path) -> None:
    """2,000 folders, one in the other, are more than a process may call or open."""
    (tmp_path / "top").mkdir()
    fd = os.open(tmp_path / "top", os.O_RDONLY)
    for _ in range(2000):
        os.mkdir("a", dir_fd=fd)
        below = os.open("a", os.O_RDONLY, dir_fd=fd)
        os.close(fd)
        fd = below
    os.close(fd)
    remove_folder(str(tmp_path / "top"))

    assert [] == os.listdir(tmp_path)


def test_a_link_is_no_folder(tmp_path: Path) -> None:
    """Somebody put it there a moment ago: what it leads to is not ours to remove."""
    (tmp_path / "kept").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "kept")

    with pytest.raises(NotADirectoryError):
        remove_folder(str(tmp_path / "link"))
    assert ["kept", "link"] == sorted(os.listdir(tmp_path))


def test_what_is_not_there_is_told(tmp_path: Path) -> None:
    """Whether that matters is the caller's to know."""
    with pytest.raises(FileNotFoundError):
        remove_folder(str(tmp_path / "none"))
