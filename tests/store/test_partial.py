import hashlib
import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kboot.checkpoint import RemoteFile
from kboot.errors import ActionFailed, VerificationFailed
from kboot.store.part_trust import have_bytes
from kboot.store.partial import Partial

SIZE = 300_000
CONTENT = random.Random(1).randbytes(SIZE)
SHA256 = hashlib.sha256(CONTENT).hexdigest()
FILE = RemoteFile("a.safetensors", SIZE, SHA256, SHA256)


@pytest.fixture
def part(tmp_path: Path) -> Path:
    return tmp_path / f"{SHA256}.part"


def buffer() -> memoryview:
    return memoryview(bytearray(64_000))


def write(partial: Partial, start: int, end: int, content: bytes = CONTENT) -> None:
    """Write [start, end) as one stream does: in pieces of at most a buffer."""
    scratch = buffer()
    for at in range(start, end, len(scratch)):
        n = min(len(scratch), end - at)
        scratch[:n] = content[at : at + n]
        partial.write(scratch, n, at)


def reopened(part: Path, partial: Partial) -> Partial:
    """What the next process finds."""
    partial.close()
    return Partial(part, FILE)


def test_a_file_written_in_order_is_proven(part: Path) -> None:
    """Bytes in order pass, and the file on disk is the content."""
    partial = Partial(part, FILE)
    write(partial, 0, SIZE)
    partial.prove(buffer())

    assert () == partial.missing()
    assert CONTENT == part.read_bytes()


@settings(max_examples=25, deadline=None)
@given(st.permutations(range(6)))
def test_the_order_of_ranges_does_not_matter(tmp_path_factory: pytest.TempPathFactory, order: list[int]) -> None:
    """However streams share the file, the hash is of the whole in order."""
    partial = Partial(tmp_path_factory.mktemp("part") / "x.part", FILE)
    for n in order:
        write(partial, n * 50_000, (n + 1) * 50_000)

    partial.prove(buffer())
    partial.forget()


def test_wrong_bytes_are_not_proven(part: Path) -> None:
    """One wrong byte in the middle, written out of order, fails the whole."""
    wrong = CONTENT[:150_000] + bytes([CONTENT[150_000] ^ 1]) + CONTENT[150_001:]
    partial = Partial(part, FILE)
    write(partial, 100_000, SIZE, wrong)
    write(partial, 0, 100_000, wrong)

    with pytest.raises(VerificationFailed) as caught:
        partial.prove(buffer())
    assert "shard-hash-mismatch" == caught.value.code


def test_what_was_closed_is_found_again(part: Path) -> None:
    """A closed partial is durable: the next one has its ranges and needs only the gaps."""
    partial = Partial(part, FILE)
    write(partial, 0, 100_000)
    write(partial, 200_000, 250_000)
    again = reopened(part, partial)

    assert ((100_000, 200_000), (250_000, SIZE)) == again.missing()
    assert 150_000 == again.found.reused_bytes == have_bytes(part, FILE)
    write(again, 100_000, 200_000)
    write(again, 250_000, SIZE)
    again.prove(buffer())


def test_a_kill_keeps_what_the_page_cache_has(part: Path) -> None:
    """A process that ends without a word: what it noted last counts while the same kernel runs."""
    partial = Partial(part, FILE)
    write(partial, 0, 100_000)
    write(partial, 200_000, 210_000)  # a range that is not at the front is noted at its first write
    partial._blocks.close()  # the kernel closes what a killed process had open

    again = Partial(part, FILE)
    assert ((100_000, 200_000), (210_000, SIZE)) == again.missing()


def test_bytes_changed_on_disk_are_noticed_before_the_rest_is_fetched(part: Path) -> None:
    """The front no longer hashes to what the journal says: the next write says so, and restart() begins anew."""
    partial = Partial(part, FILE)
    write(partial, 0, 100_000)
    partial.close()
    with part.open("r+b") as file:
        file.write(b"\0" * 10)
    again = Partial(part, FILE)

    with pytest.raises(VerificationFailed) as caught:
        write(again, 100_000, 150_000)
    assert "partial-damaged" == caught.value.code
    again.restart()
    assert ((0, SIZE),) == again.missing()
    write(again, 0, SIZE)
    again.prove(buffer())


def test_an_oversize_partial_is_thrown_away(part: Path) -> None:
    """B005: more bytes than the file has are of something else; both numbers are told."""
    part.write_bytes(CONTENT + b"xx")
    partial = Partial(part, FILE)

    assert ((0, SIZE),) == partial.missing()
    assert str(SIZE) in partial.found.discarded and str(SIZE + 2) in partial.found.discarded
    assert 0 == part.stat().st_size


def test_another_downloaders_partial_is_taken_over(part: Path) -> None:
    """A partial without a journal counts as written from the front; its hash will tell."""
    part.write_bytes(CONTENT[:120_000])
    partial = Partial(part, FILE)

    assert ((120_000, SIZE),) == partial.missing()
    write(partial, 120_000, SIZE)
    partial.prove(buffer())


def test_one_process_at_a_time(part: Path) -> None:
    """A second opener is refused while the first is there, and not afterwards."""
    first = Partial(part, FILE)
    with pytest.raises(ActionFailed) as caught:
        Partial(part, FILE)
    first.close()

    assert "partial-in-use" == caught.value.code
    Partial(part, FILE).close()


def test_doubted_ranges_are_missing_and_their_bytes_stay_to_be_compared(part: Path) -> None:
    """What was written is hashed from the start again; where new bytes differ from old ones is found."""
    partial = Partial(part, FILE)
    wrong = bytearray(CONTENT)
    wrong[1500] ^= 1
    write(partial, 0, len(CONTENT), bytes(wrong))
    with pytest.raises(VerificationFailed):
        partial.prove(buffer())
    partial.doubt(((1000, 2000),))

    assert ((1000, 2000),) == partial.missing()
    assert 1500 == partial.differs(memoryview(CONTENT[1000:2000]), 1000)
    assert None is partial.differs(memoryview(CONTENT[:1000]), 0)
    write(partial, 1000, 2000)
    partial.prove(buffer())
    partial.close()


def test_nothing_is_left_of_nothing(part: Path) -> None:
    """A partial that never got a byte leaves no file, though blocks were reserved."""
    partial = Partial(part, FILE)
    partial.reserve()
    partial.close()

    assert [] == list(part.parent.iterdir())


def test_a_named_file_leaves_no_journal(part: Path) -> None:
    """After forget() the file alone is left, to be given its final name."""
    partial = Partial(part, FILE)
    write(partial, 0, SIZE)
    partial.checkpoint()
    partial.prove(buffer())
    partial.sync()
    partial.forget()

    assert [part] == list(part.parent.iterdir())


def test_checkpoint_after_the_end_is_nothing(part: Path) -> None:
    """The keeper may come late: a closed partial is not made durable again."""
    partial = Partial(part, FILE)
    write(partial, 0, 1000)
    assert 1000 == partial.unsynced_bytes
    partial.checkpoint()
    assert 0 == partial.unsynced_bytes
    partial.close()
    partial.checkpoint()
