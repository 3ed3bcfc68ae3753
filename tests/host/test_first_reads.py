"""The first and the second read of a block."""

from __future__ import annotations

from pathlib import Path

from kboot.host.first_reads import BLOCK_BYTES, first_reads


def test_blocks_of_every_file_are_read_twice(tmp_path: Path) -> None:
    """As many as are asked for, or none on a file system that has no reads past the cache."""
    files = []
    for number in range(4):
        path = tmp_path / f"{number}"
        path.write_bytes(bytes(8 * BLOCK_BYTES))
        files.append(path)
    found = first_reads(files, 3, 60.0)

    assert found is None or (3, True) == (found[0], found[1] > 0)


def test_a_hole_is_no_block(tmp_path: Path) -> None:
    """Of a file that is here in part what is here is read; of one that is all hole nothing."""
    part, hole = tmp_path / "part", tmp_path / "hole"
    with part.open("wb") as file:
        file.truncate(1 << 30)
        file.seek(900 << 20)
        file.write(bytes(8 * BLOCK_BYTES))
    with hole.open("wb") as file:
        file.truncate(1 << 30)
    found = first_reads([part, hole], 4, 60.0)

    assert found is None or (1, True) == (found[0], found[1] > 0)
    assert None is first_reads([hole], 4, 60.0)


def test_a_file_system_in_memory_is_left_alone() -> None:
    """/proc has no reads past the cache."""
    assert first_reads([Path("/proc/version")], 1, 60.0) is None


def test_no_file_is_no_answer() -> None:
    """Nothing to read."""
    assert first_reads([], 3, 60.0) is None
