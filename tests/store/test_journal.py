import zlib
from dataclasses import replace
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from kboot.checkpoint import RemoteFile
from kboot.store.journal import Journal, Record, Trusted, decode, encode, journal_path, judge, read_pages

PAGE = 4096
FILE = RemoteFile("a.safetensors", 1000, "a" * 64, "a" * 64)
DURABLE = Record(7, "", FILE.blob_id, 1000, 5, ((0, 300), (500, 600)), 300, "d1")
CACHED = Record(0, "this-boot", FILE.blob_id, 1000, 5, ((0, 400),), 400, "d2")
EMPTY = b"\0" * PAGE


def judged(*pages: bytes, length: int = 1000, inode: int = 5, boot: str = "this-boot") -> Trusted:
    return judge(b"".join(pages), FILE, inode, length, boot)


@given(
    st.lists(st.tuples(st.integers(0, 1 << 44), st.integers(0, 1 << 44)), max_size=12),
    st.integers(0, 1 << 44),
    st.text(max_size=64),
)
def test_a_record_survives_its_page(ranges: list[tuple[int, int]], hashed: int, digest: str) -> None:
    """decode(encode()) is the record, in exactly one page."""
    record = replace(DURABLE, ranges=tuple(ranges), hashed_bytes=hashed, digest=digest)

    assert PAGE == len(encode(record))
    assert record == decode(encode(record))


def test_the_page_is_the_record_in_json_behind_its_checksum() -> None:
    """The form that every release reads: the fields in this order, without a space."""
    body = (
        b'{"v":1,"seq":7,"boot_id":"","blob_id":"%s","size_bytes":1000,"inode":5,"ranges":[[0,300],[500,600]],'
        b'"hashed_bytes":300,"digest":"d1"}'
    ) % (b"a" * 64)

    assert (b"%08x %s\n" % (zlib.crc32(body), body)).ljust(PAGE, b"\0") == encode(DURABLE)


def test_ranges_that_do_not_fit_are_forgotten_from_the_end() -> None:
    """A thousand ranges do not fit a page: the first ones stay, the rest will be fetched again."""
    many = tuple((n * 10**12, n * 10**12 + 5) for n in range(1000))
    page = encode(replace(DURABLE, ranges=many))
    record = decode(page)

    assert PAGE == len(page)
    assert record and 50 < len(record.ranges) < 1000
    assert many[: len(record.ranges)] == record.ranges


@given(st.integers(0, len(encode(DURABLE).rstrip(b"\0")) - 1), st.integers(1, 255))
def test_a_torn_page_is_no_record(at: int, flip: int) -> None:
    """Any changed byte of a record makes it none."""
    page = bytearray(encode(DURABLE))
    page[at] ^= flip

    assert decode(bytes(page)) in (None, DURABLE)  # the case of a hex digit may change without changing its value
    if at > 8:
        assert None is decode(bytes(page))


def test_the_newer_of_two_durable_records_counts() -> None:
    """Slots A and B are written in turn: the higher number is the later one."""
    newer = replace(DURABLE, seq=8, ranges=((0, 700),), hashed_bytes=700, digest="d8")

    assert Trusted(((0, 700),), 700, "d8", 8) == judged(encode(newer), encode(DURABLE), EMPTY)


def test_a_torn_slot_leaves_the_other() -> None:
    """A power cut while one slot was written leaves the older record, and that is enough."""
    torn = encode(replace(DURABLE, seq=8, ranges=((0, 700),)))[:100].ljust(PAGE, b"\0")

    assert DURABLE.ranges == judged(torn, encode(DURABLE), EMPTY).ranges


def test_the_page_cache_is_trusted_only_while_its_kernel_runs() -> None:
    """After a reboot only what was durable counts."""
    pages = (EMPTY, encode(DURABLE), encode(CACHED))

    assert Trusted(((0, 400), (500, 600)), 400, "d2", 7) == judged(*pages)
    assert Trusted(DURABLE.ranges, 300, "d1", 7) == judged(*pages, boot="next-boot")
    assert DURABLE.ranges == judged(*pages, boot="").ranges


def test_a_journal_of_something_else_vouches_for_nothing() -> None:
    """Another inode, another blob, another size: not this partial's journal."""
    page = encode(DURABLE)

    assert Trusted() == judged(page, EMPTY, EMPTY, inode=6)
    assert Trusted() == judged(encode(replace(DURABLE, blob_id="b" * 64)), EMPTY, EMPTY)
    assert Trusted() == judged(encode(replace(DURABLE, size_bytes=999)), EMPTY, EMPTY)
    assert Trusted() == judged(b"")


def test_nothing_beyond_the_length_is_trusted() -> None:
    """A partial that was cut short since has only what is left of it."""
    assert ((0, 250),) == judged(encode(DURABLE), EMPTY, EMPTY, length=250).ranges


def test_records_are_read_back_from_disk(tmp_path: Path) -> None:
    """Durable records alternate between two slots and go on from an earlier run's number."""
    part = tmp_path / "x.part"
    journal = Journal(part, 4)
    journal.durable(DURABLE)
    journal.durable(replace(DURABLE, ranges=((0, 900),)))
    journal.cached(CACHED)
    journal.close()
    pages = read_pages(part)

    assert pages is not None
    assert [6, 5] == [record.seq for record in map(decode, (pages[:PAGE], pages[PAGE : 2 * PAGE])) if record]
    assert CACHED == decode(pages[2 * PAGE :])
    assert Trusted(((0, 900),), 400, "d2", 6) == judged(pages)


def test_a_removed_journal_is_gone(tmp_path: Path) -> None:
    """remove() leaves no file, also when nothing was ever recorded."""
    part = tmp_path / "x.part"
    journal = Journal(part, 0)
    journal.remove()
    journal.durable(DURABLE)
    journal.remove()

    assert not journal_path(part).exists()
    assert None is read_pages(part)
