"""A set of pieces, the stretches of bytes it stands for, and back."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from kboot.pieces import PIECE_BYTES, bytes_of, piece_count, piece_range, pieces_in, runs_of

MIB = PIECE_BYTES
STRETCHES = st.lists(st.tuples(st.integers(0, 40 * MIB), st.integers(0, 3 * MIB)), max_size=8)


def test_neighbouring_pieces_are_one_stretch() -> None:
    """Pieces 0, 1 and 3 of a file that ends inside piece 3."""
    size = 3 * MIB + 5

    assert 4 == piece_count(size)
    assert ((0, 2 * MIB), (3 * MIB, size)) == runs_of(0b1011, size)
    assert 2 * MIB + 5 == bytes_of(0b1011, size)
    assert (3 * MIB, size) == piece_range(size, 3)


def test_a_byte_is_enough_for_a_piece() -> None:
    """The last byte of one and the first of the next are two pieces; an empty stretch is none."""
    assert 0b11 == pieces_in([(MIB - 1, MIB + 1)])
    assert 0 == pieces_in([(7, 7)])


@settings(deadline=None)
@given(STRETCHES)
def test_every_byte_of_a_stretch_is_in_its_pieces(stretches: list[tuple[int, int]]) -> None:
    """And what is more begins and ends less than a piece away from it."""
    ranges = [(start, start + length) for start, length in stretches]
    size = 44 * MIB
    runs = runs_of(pieces_in(ranges), size)

    assert all(any(a <= start and end <= b for a, b in runs) for start, end in ranges if start < end)
    assert pieces_in(ranges) == pieces_in(runs)
    assert bytes_of(pieces_in(ranges), size) <= sum(end - start + 2 * MIB for start, end in ranges)
