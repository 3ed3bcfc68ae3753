"""What reading for a rate covers, and what it leaves alone."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kboot.host.pagecache import resident_bytes
from kboot.host.read_rate import fault_in, read_past_cache

MIB = 1 << 20


def cold_file(path: Path, size_bytes: int) -> Path:
    """Write a file and drop it from the page cache."""
    path.write_bytes(os.urandom(size_bytes))
    with path.open("rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    return path


def test_every_byte_is_read_once_by_whatever_number_of_streams(tmp_path: Path) -> None:
    """Files of unequal size, more streams than stretches, an empty one among them."""
    files = [cold_file(tmp_path / str(n), size) for n, size in enumerate((65 * MIB, 3 * MIB + 17, 0))]
    size_bytes, seconds = read_past_cache(files, 8, 600)

    assert 68 * MIB + 17 == size_bytes
    assert seconds > 0


def test_a_budget_of_nothing_reads_nothing(tmp_path: Path) -> None:
    """The budget ends it, not the files."""
    assert 0 == read_past_cache([cold_file(tmp_path / "a", MIB)], 2, 0)[0]


def test_a_cold_file_is_faulted_in_page_by_page_and_a_warm_one_is_not(tmp_path: Path) -> None:
    """Touching brings every page into memory; what is there already would measure memory."""
    path = cold_file(tmp_path / "a", 2 * MIB + 100)
    if resident_bytes(path):
        pytest.skip("this file system keeps its files in memory")
    found = fault_in([path], 600)

    assert found is not None
    assert 2 * MIB + 100 == found[0] == resident_bytes(path)
    assert fault_in([path], 600) is None


def test_a_file_that_is_gone_is_an_error(tmp_path: Path) -> None:
    """Not a rate of nothing."""
    with pytest.raises(FileNotFoundError):
        read_past_cache([tmp_path / "gone"], 1, 1)
