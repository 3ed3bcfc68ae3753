"""What killed downloads leave behind, and what must stay."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from kboot.host.blocks import BlockFile
from kboot.store.sweep import sweep

ID = "a" * 64
OLD_S = time.time() - 3600


def put(folder: Path, name: str, content: bytes = b"", *, old: bool = True) -> Path:
    """Write a file, an hour ago or now."""
    path = folder / name
    path.write_bytes(content)
    if old:
        os.utime(path, (OLD_S, OLD_S))
    return path


def test_what_hf_transfer_had_not_finished_goes(tmp_path: Path) -> None:
    """A killed run's file is removed, and its bytes are counted."""
    put(tmp_path, f"{ID}.part-transfer", b"x" * 5000)

    assert 5000 == sweep(tmp_path)
    assert [] == list(tmp_path.iterdir())


@pytest.mark.parametrize("held", [f"{ID}.part", f"{ID}.part-transfer"])
def test_a_transfer_that_still_runs_stays(tmp_path: Path, held: str) -> None:
    """Its part is locked by kboot, or the file itself is open in the worker."""
    put(tmp_path, f"{ID}.part-transfer", b"x" * 5000)
    with BlockFile(tmp_path / held):
        assert 0 == sweep(tmp_path)

    assert (tmp_path / f"{ID}.part-transfer").exists()


def test_a_part_that_was_reserved_and_never_got_a_byte_goes(tmp_path: Path) -> None:
    """A kill between reserving and receiving must not keep the disk full for ever."""
    with BlockFile(tmp_path / f"{ID}.part") as blocks:
        reserved = blocks.reserve(1 << 20)
    os.utime(tmp_path / f"{ID}.part", (OLD_S, OLD_S))

    assert (1 << 20 if reserved else 0) == sweep(tmp_path)
    assert [] == list(tmp_path.iterdir())


def test_a_part_of_a_time_far_ahead_is_no_young_one(tmp_path: Path) -> None:
    """It was reserved while the clock was wrong, and would stay until that time comes."""
    ahead = put(tmp_path, f"{ID}.part", old=False)
    os.utime(ahead, (4e9, 4e9))
    sweep(tmp_path)

    assert not ahead.exists()


def test_a_part_that_somebody_may_come_back_for_stays(tmp_path: Path) -> None:
    """One that was begun, one reserved a moment ago, one that is open: all of them will be used."""
    begun = put(tmp_path, f"{'b' * 64}.part", b"x")
    fresh = put(tmp_path, f"{'c' * 64}.part", old=False)
    opened = put(tmp_path, f"{'d' * 64}.part")
    with BlockFile(opened):
        assert 0 == sweep(tmp_path)

    assert [begun, fresh, opened] == sorted(tmp_path.iterdir())


def test_a_folder_that_is_not_there_has_nothing_to_sweep(tmp_path: Path) -> None:
    """The first fetch of a node sweeps too."""
    assert 0 == sweep(tmp_path / "none")
