"""Which processes have a file open now, and of how many can this user not tell?"""

import os
from pathlib import Path

import pytest

from kboot.host.holders import holders, holders_of


def test_whoever_has_it_open_is_found_by_inode(tmp_path: Path) -> None:
    """Also under another name of the same file."""
    path = tmp_path / "lock"
    with path.open("w"):
        os.link(path, tmp_path / "other")

        assert (os.getpid(),) == holders(tmp_path / "other").pids
        assert not holders(path).none
    assert ((), True) == (holders(path).pids, holders(path).none)


def test_many_are_looked_up_in_one_pass(tmp_path: Path) -> None:
    """Each file gets its own answer."""
    paths = [tmp_path / name for name in ("a", "b")]
    for path in paths:
        path.touch()
    with paths[0].open():
        found = holders_of(paths)

    assert [False, True] == [found[path].none for path in paths]
    assert {} == holders_of(())


def test_a_missing_file_is_an_error(tmp_path: Path) -> None:
    """Nobody holds what is not there, but that is not the question."""
    with pytest.raises(FileNotFoundError):
        holders(tmp_path / "none")
