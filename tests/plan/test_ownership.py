"""Who fetches what: every piece has one owner, loads are even, and those of a node that is gone are spread."""

from __future__ import annotations

from collections.abc import Collection

from hypothesis import given
from hypothesis import strategies as st

from kboot.plan.ownership import (
    all_pieces,
    covered,
    members,
    owned,
    piece_bytes,
    piece_count,
    range_of,
    to_help_with,
    touched,
)

MIB = 1 << 20
SIZES = st.integers(1, 20 << 30)
NAMES = st.lists(st.text("abcdefgh0123", min_size=1, max_size=6), min_size=1, max_size=40, unique=True)
BLOBS = st.text("0123456789abcdef", min_size=40, max_size=40)


def own(blob: str, count: int, names: list[str], gone: Collection[str], me: str) -> int:
    return owned(blob, count, tuple(names), frozenset(gone), me)


def union(parts: list[int]) -> int:
    """Return all pieces of sets that have none in common."""
    found = 0
    for part in parts:
        assert not found & part, "a piece with two owners"
        found |= part
    return found


@given(SIZES)
def test_pieces_make_up_the_file(size: int) -> None:
    """Each begins where the one before ends; there are few of them and none is larger than 64 MiB."""
    ranges = [range_of(size, piece) for piece in range(piece_count(size))]

    assert [0, *(end for _, end in ranges[:-1])] == [start for start, _ in ranges]
    assert size == ranges[-1][1]
    assert all(0 < end - start <= 64 * MIB for start, end in ranges)
    assert all_pieces(size) == touched(size, ranges) == covered(size, ranges)


def test_small_files_are_one_piece_and_shards_about_thirty() -> None:
    """1 MiB at least, 64 MiB at most."""
    assert (0, 1, 1) == (piece_count(0), piece_count(1), piece_count(MIB))
    assert (4 * MIB, 32) == (piece_bytes(128 * MIB), piece_count(128 * MIB))
    assert (64 * MIB, 224) == (piece_bytes(14 << 30), piece_count(14 << 30))


def test_a_piece_counts_as_here_only_when_all_of_it_is() -> None:
    """A range that begins or ends within a piece touches it and does not cover it."""
    size = 3 * MIB + 5

    assert (0b0111, 0b0010) == (touched(size, [(1, 2 * MIB + 1)]), covered(size, [(1, 2 * MIB + 1)]))
    assert (0b1000, 0b1000) == (touched(size, [(3 * MIB, size)]), covered(size, [(3 * MIB, size)]))
    assert (0, 0) == (touched(size, []), covered(size, [(5, 6)]))


@given(BLOBS, st.integers(0, 300), NAMES, st.data())
def test_every_piece_has_one_owner_whoever_is_gone(
    blob: str, count: int, names: list[str], data: st.DataObject
) -> None:
    """As long as one node is here, everything is owned, once, by nodes that are here."""
    gone = data.draw(st.sets(st.sampled_from(names), max_size=len(names) - 1))
    parts = [own(blob, count, names, gone, name) for name in names]

    assert (1 << count) - 1 == union(parts)
    assert all(not part for name, part in zip(names, parts, strict=True) if name in gone)


@given(BLOBS, st.integers(1, 300), NAMES, st.randoms())
def test_the_order_of_the_names_does_not_matter(blob: str, count: int, names: list[str], random: object) -> None:
    """Two nodes that were told of the fleet in different order agree."""
    turned = names[::-1]

    assert own(blob, count, names, (), names[0]) == own(blob, count, turned, (), names[0])


@given(BLOBS, st.integers(1, 300), NAMES)
def test_loads_differ_by_one_piece_at_most(blob: str, count: int, names: list[str]) -> None:
    """Also where nodes outnumber pieces."""
    loads = [own(blob, count, names, (), name).bit_count() for name in names]

    assert max(loads) - min(loads) <= 1


@given(BLOBS, st.integers(1, 300), NAMES, st.data())
def test_only_pieces_of_the_gone_move(blob: str, count: int, names: list[str], data: st.DataObject) -> None:
    """What a node owns it keeps while others come and go."""
    gone = data.draw(st.sets(st.sampled_from(names), max_size=len(names) - 1))
    for name in set(names) - gone:
        before = own(blob, count, names, (), name)
        assert before == before & own(blob, count, names, gone, name)


def test_pieces_of_a_gone_node_are_spread() -> None:
    """Of 800 pieces over 8 nodes, the 100 of one that is gone go to all seven others."""
    names = [f"n{number}" for number in range(8)]
    more = [
        own("b", 800, names, {"n3"}, name).bit_count() - own("b", 800, names, (), name).bit_count()
        for name in names
        if name != "n3"
    ]

    assert (100, 7) == (sum(more), sum(count > 3 for count in more))


def test_a_node_that_is_not_of_the_fleet_owns_nothing() -> None:
    """Nor one that counts as gone itself."""
    assert 0 == own("b", 10, ["a", "b"], (), "c")
    assert 0 == own("b", 10, ["a", "b"], ("a",), "a")


@given(BLOBS, st.integers(0, 1 << 200), NAMES)
def test_helpers_take_different_pieces(blob: str, pieces: int, names: list[str]) -> None:
    """Together they take all of them, each its own, from the far end."""
    assert pieces == union([to_help_with(blob, pieces, name, names) for name in names])
    assert 0 == to_help_with(blob, pieces, "nobody", names)


@given(st.integers(0, 1 << 200))
def test_members_are_the_bits(pieces: int) -> None:
    """Numbers and set are two forms of one thing."""
    assert pieces == sum(1 << piece for piece in members(pieces))
    assert sorted(members(pieces)) == list(members(pieces))
