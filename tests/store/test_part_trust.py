from pathlib import Path

import pytest

from kboot.checkpoint import RemoteFile
from kboot.host import files
from kboot.host.blocks import boot_id
from kboot.store.journal import Journal, Record, Trusted, journal_path
from kboot.store.part_trust import Found, PartialInUse, have_bytes, open_alone, promise_of, trust

FILE = RemoteFile("a.safetensors", 1000, "a" * 64, "a" * 64)


@pytest.fixture
def part(tmp_path: Path) -> Path:
    """A part of 600 bytes, of whatever downloader."""
    part = tmp_path / "x.part"
    part.write_bytes(b"\1" * 600)
    return part


def vouch(part: Path, *ranges: tuple[int, int]) -> None:
    """Write the journal that says these ranges are durable."""
    journal = Journal(part, 0)
    journal.durable(Record(0, "", FILE.blob_id, FILE.size_bytes, part.stat().st_ino, ranges, 300, "d"))
    journal.close()


def found(part: Path) -> tuple[Trusted, Found]:
    there = files.identity(part)
    return trust(part, FILE, there.inode, there.size_bytes, boot_id())


def test_what_the_journal_vouches_for_is_trusted(part: Path) -> None:
    """Two ranges are durable: both are built on, and no byte between them."""
    vouch(part, (0, 400), (500, 600))

    assert (Trusted(((0, 400), (500, 600)), 300, "d", 1), Found(500, "")) == found(part)
    assert 500 == have_bytes(part, FILE)


def test_a_part_cut_short_on_disk_is_trusted_only_as_far_as_it_goes(part: Path) -> None:
    """A file system that lost the tail: only what is left counts."""
    vouch(part, (0, 600))
    with part.open("r+b") as file:
        file.truncate(250)

    assert 250 == have_bytes(part, FILE)


def test_a_part_without_a_journal_counts_as_written_from_the_front(part: Path) -> None:
    """Another downloader's: its length is all that is known."""
    assert (Trusted(((0, 600),)), Found(600, "")) == found(part)


def test_more_bytes_than_the_file_has_are_of_something_else(part: Path) -> None:
    """B005: none is trusted, and both numbers are told."""
    part.write_bytes(bytes(1002))

    assert (Trusted(), Found(0, "it has 1002 bytes, the listing says 1000")) == found(part)
    assert 0 == have_bytes(part, FILE)


def test_bytes_beside_a_torn_journal_are_not_trusted(part: Path) -> None:
    """A journal that says nothing vouches for nothing, and that is told."""
    journal_path(part).write_bytes(b"garbage")

    assert (Trusted(), Found(0, "its journal vouches for no byte of it")) == found(part)


def test_where_nothing_is_there_is_nothing_to_tell(part: Path) -> None:
    """An empty part was not discarded; without a part there are no bytes."""
    part.write_bytes(b"")
    assert (Trusted(), Found(0, "")) == found(part)

    part.unlink()
    assert 0 == have_bytes(part, FILE)


def test_a_promise_is_of_a_front_that_is_trusted() -> None:
    """A digest binds only when every byte that it is of is here."""
    assert (300, "d") == promise_of(Trusted(((0, 300),), 300, "d"))
    assert None is promise_of(Trusted(((0, 299),), 300, "d"))
    assert None is promise_of(Trusted(((0, 600),)))


def test_a_part_is_open_once(part: Path) -> None:
    """A second opener is told which file it is of, until the first has closed it."""
    first = open_alone(part, FILE)
    with pytest.raises(PartialInUse, match=r"is fetching a\.safetensors"):
        open_alone(part, FILE)
    first.close()

    open_alone(part, FILE).close()
