import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from kboot.host.mapped import WINDOW_BYTES, Windows
from kboot.host.pagecache import Reading, new_buffer

CONTENT = os.urandom(1 << 20) * 9


@pytest.fixture
def warm(tmp_path: Path) -> Path:
    path = tmp_path / "file"
    path.write_bytes(CONTENT)
    if os.major(path.stat().st_dev) == 0:
        pytest.skip("this file system has no disk of its own")
    return path


@pytest.fixture
def fd(warm: Path) -> Iterator[int]:
    fd = os.open(warm, os.O_RDONLY)
    yield fd
    os.close(fd)


def all_of_it(fd: int, start: int, length: int) -> int:
    return length


def test_a_window_holds_the_bytes_of_its_place(fd: int) -> None:
    """Whole windows at their multiples are mapped; what is between them and the end is to be copied."""
    windows = Windows(fd, all_of_it)

    for start in (0, WINDOW_BYTES):
        window = windows.at(start, len(CONTENT))
        assert window is not None
        with window:
            assert CONTENT[start : start + WINDOW_BYTES] == window[:]
    assert windows.at(2 * WINDOW_BYTES, len(CONTENT)) is None
    assert windows.at(1 << 20, len(CONTENT)) is None


def test_what_is_not_all_in_memory_is_not_mapped(fd: int) -> None:
    """A page that has to come from a disk that cannot read it would kill the process."""
    assert Windows(fd, lambda fd, start, length: length - 1).at(0, len(CONTENT)) is None
    assert Windows(fd, lambda fd, start, length: None).at(0, len(CONTENT)) is None


def test_what_somebody_may_be_writing_is_not_mapped(warm: Path, fd: int) -> None:
    """A file that gets shorter while it is touched would kill the process."""
    writer = os.open(warm, os.O_WRONLY)
    try:
        assert Windows(fd, all_of_it).at(0, len(CONTENT)) is None
    finally:
        os.close(writer)


def test_who_wants_to_write_waits_for_the_window_and_no_longer(warm: Path, fd: int) -> None:
    """While a window is in use nobody opens the file for writing or cuts it; after it they do, and no other follows."""
    windows = Windows(fd, all_of_it)
    window = windows.at(0, len(CONTENT))
    assert window is not None
    assert not may_write(warm)
    with window:
        assert CONTENT[:WINDOW_BYTES] == window[:]

    assert windows.at(WINDOW_BYTES, len(CONTENT)) is None
    assert may_write(warm)
    assert windows.at(WINDOW_BYTES, len(CONTENT)) is None


def test_the_lease_ends_with_the_reading(warm: Path) -> None:
    """Nobody waits for a verification that is over."""
    with Reading(warm, new_buffer(1 << 20)) as reading:
        for _ in reading:
            break
    os.truncate(warm, 5)

    assert 5 == warm.stat().st_size


def test_a_file_that_somebody_wants_to_write_is_read_to_its_end(warm: Path) -> None:
    """The rest is copied: the writer is let in, and every byte comes once."""
    seen, let_in = bytearray(), []
    with Reading(warm, new_buffer(1 << 20)) as reading:
        for data in reading:
            seen += data
            let_in.append(may_write(warm))

    assert CONTENT == seen
    assert (False, True) == (let_in[0], let_in[-1])


def may_write(path: Path) -> bool:
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK))
    except BlockingIOError:
        return False
    return True
