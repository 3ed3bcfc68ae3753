"""What lies in a folder, down to every file, and what does one look at each cost?"""

import os
import socket
from pathlib import Path

import pytest

from kboot.errors import ActionFailed
from kboot.host.tree import read_head, read_tree, sync_file_system


def make(top: Path) -> None:
    """Two files, a folder in a folder, a link out of the tree and a socket."""
    (top / "a/b").mkdir(parents=True)
    (top / "a/x.json").write_text("{}")
    (top / "a/b/y").write_text("four")
    (top / "a/out").symlink_to("/etc")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(top / "s"))


def test_everything_is_found_once_and_links_are_not_followed(tmp_path: Path) -> None:
    """Files with size and time, folders, and the rest apart."""
    make(tmp_path)
    tree = read_tree(tmp_path)

    assert ["a/b/y", "a/x.json"] == sorted(f.path for f in tree.files)
    assert ["a", "a/b"] == sorted(f.path for f in tree.folders)
    assert ["a/out", "s"] == sorted(f.path for f in tree.others)
    assert (6, True) == (tree.size_bytes, tree.whole)
    assert os.stat(tmp_path / "a/x.json").st_mtime_ns == max(tree.files).mtime_ns


def test_names_at_the_top_can_be_left_out_and_the_walk_has_a_bound(tmp_path: Path) -> None:
    """`skip` counts for the top only; at the limit the walk ends and says so."""
    make(tmp_path)
    (tmp_path / "x.json").write_text("")

    assert ["a/b/y", "a/x.json"] == sorted(f.path for f in read_tree(tmp_path, skip=("x.json",)).files)
    assert not read_tree(tmp_path, limit=2).whole


def test_a_folder_that_is_not_there_is_empty(tmp_path: Path) -> None:
    """No cache yet is nothing to look through."""
    assert ([], True) == (read_tree(tmp_path / "none").files, read_tree(tmp_path / "none").whole)


def test_the_head_of_a_file_is_read_and_a_link_is_not(tmp_path: Path) -> None:
    """A link in a cache cannot make kboot read another file."""
    make(tmp_path)

    assert b"fo" == read_head(tmp_path / "a/b/y", 2)
    (tmp_path / "l").symlink_to("a/b/y")
    with pytest.raises(OSError, match=r"symbolic|levels"):
        read_head(tmp_path / "l", 2)


def test_a_file_system_is_flushed_and_a_missing_folder_is_an_error(tmp_path: Path) -> None:
    """One call for all files of a folder."""
    sync_file_system(tmp_path)
    with pytest.raises(ActionFailed):
        sync_file_system(tmp_path / "none")
