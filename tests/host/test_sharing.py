"""Modes of what the engine's user must read or write."""

from __future__ import annotations

from pathlib import Path

from kboot.host.sharing import engine_dir_mode, secret_mode


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
