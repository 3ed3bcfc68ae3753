"""A few ranges stand for a large file; the same ones everywhere."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kboot.checkpoint import RemoteFile
from kboot.store.samples import RANGE_BYTES, RANGES, SMALL_BYTES, first_wrong, ranges_of, read_samples

LARGE = RemoteFile("a.safetensors", SMALL_BYTES + 12345, "a" * 64, "a" * 64)


def test_ranges_are_all_over_the_file_and_the_same_every_time() -> None:
    """Sixteen, from a block's start, in order, the first and the last among them; small files have none."""
    ranges = ranges_of(LARGE)

    assert ranges == ranges_of(LARGE)
    assert RANGES == len(ranges)
    assert list(ranges) == sorted(ranges)
    assert (0, RANGE_BYTES) == ranges[0]
    assert LARGE.size_bytes - ranges[-1][1] < 4096
    assert all(start % 4096 == 0 and end - start <= RANGE_BYTES for start, end in ranges)
    assert () == ranges_of(RemoteFile("b", SMALL_BYTES, "b" * 64, "b" * 64))
    assert ranges != ranges_of(RemoteFile("a", LARGE.size_bytes, "c" * 64, None))


@pytest.mark.parametrize("past_cache", [False, True])
def test_a_copy_has_the_same_samples_and_a_changed_range_is_named(tmp_path: Path, past_cache: bool) -> None:
    """From memory or from the disk itself."""
    data = bytearray(os.urandom(1 << 16) * (LARGE.size_bytes // (1 << 16) + 1))[: LARGE.size_bytes]
    (tmp_path / "a").write_bytes(data)
    wanted = read_samples(tmp_path / "a", LARGE, past_cache=False)
    start, end = ranges_of(LARGE)[7]
    data[start + 100] ^= 1
    (tmp_path / "b").write_bytes(data)
    found = read_samples(tmp_path / "b", LARGE, past_cache=past_cache)

    assert None is first_wrong(LARGE, wanted, read_samples(tmp_path / "a", LARGE, past_cache=past_cache))
    assert RANGES == len(set(range(len(wanted))))
    wrong = first_wrong(LARGE, wanted, found)
    assert wrong is not None
    assert wrong[0] <= start + 100 < wrong[1]
    assert wrong[1] <= end or wrong[0] < start
