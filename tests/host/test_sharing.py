"""Modes of what the engine's user must read or write."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from kboot.errors import ActionFailed
from kboot.host.sharing import engine_dir_mode, engine_file_mode, engine_user, require_engines, require_own, secret_mode


def test_alone_nobody_else_reads_a_secret(tmp_path: Path) -> None:
    """In an ordinary folder a key is for its owner only, and a cache folder is like any other."""
    tmp_path.chmod(0o755)

    assert 0o600 == secret_mode(tmp_path)
    assert 0o755 == engine_dir_mode(tmp_path)


def test_in_a_set_group_id_folder_the_group_is_let_in(tmp_path: Path) -> None:
    """In the folders of an installed node the engine's group reads keys and writes caches; others never do."""
    tmp_path.chmod(0o2750)

    assert 0o640 == secret_mode(tmp_path)
    assert 0o770 == engine_dir_mode(tmp_path)


def test_a_folder_that_is_not_there_shares_nothing(tmp_path: Path) -> None:
    """Without a folder to look at, the strict mode is chosen."""
    assert 0o600 == secret_mode(tmp_path / "missing")


def test_alone_the_engine_writes_what_its_user_may(tmp_path: Path) -> None:
    """Outside of an installed node the engine runs as this user: owner with u+w, everybody with o+w, root always."""
    tmp_path.chmod(0o755)
    me = replace(engine_user(tmp_path), uid=1000)

    assert [True, False, False, True] == [
        me.may_write(mode, uid, 0) for mode, uid in ((0o755, 1000), (0o555, 1000), (0o755, 0), (0o777, 0))
    ]
    assert replace(me, uid=0).may_write(0o400, 1000, 0)
    assert engine_user(tmp_path / "missing").gid is None


def test_on_an_installed_node_roots_files_need_the_group(tmp_path: Path) -> None:
    """What the engine wrote is its own; what root wrote must be writable for the folder's group."""
    tmp_path.chmod(0o2770)
    user = engine_user(tmp_path)
    gid = tmp_path.stat().st_gid

    assert [False, True, False, True] == [
        user.may_write(mode, uid, group)
        for mode, uid, group in ((0o755, 0, gid), (0o775, 0, gid), (0o775, 0, gid + 1), (0o755, 997, gid))
    ]


def test_files_for_the_engine_keep_their_mode_and_let_the_group_in(tmp_path: Path) -> None:
    """Set-user-id and the like never come along."""
    tmp_path.chmod(0o755)
    assert [0o755, 0o644] == [engine_file_mode(0o4755, tmp_path), engine_file_mode(0o044, tmp_path)]
    tmp_path.chmod(0o2770)
    assert 0o664 == engine_file_mode(0o644, tmp_path)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes files of another user's")
def test_what_another_user_could_have_written_is_refused(tmp_path: Path) -> None:
    """Root's and this user's are taken, and what is not there; caches are the engine's too on an installed node."""
    theirs = tmp_path / "key"
    theirs.mkdir()
    require_own(tmp_path, tmp_path / "missing")
    os.chown(theirs, 65534, 65534)

    with pytest.raises(ActionFailed, match="key belongs to user id 65534"):
        require_own(tmp_path, theirs)
    with pytest.raises(ActionFailed, match="key belongs to user id 65534"):
        require_engines(theirs)
    tmp_path.chmod(0o2770)
    require_engines(theirs)
