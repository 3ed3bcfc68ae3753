"""A set of pieces, the stretches of bytes it stands for, and back."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kboot.pieces import PIECE_BYTES as PIECE
from kboot.pieces import bytes_of, piece_count, piece_range, pieces_in, runs_of

STRETCHES = st.lists(st.tuples(st.integers(0, 40 * PIECE), st.integers(0, 3 * PIECE)), max_size=8)


def test_neighbouring_pieces_are_one_stretch() -> None:
    """Pieces 0, 1 and 3 of a file that ends inside piece 3."""
    size = 3 * PIECE + 5

    assert 4 == piece_count(size)
    assert ((0, 2 * PIECE), (3 * PIECE, size)) == runs_of(0b1011, size)
    assert 2 * PIECE + 5 == bytes_of(0b1011, size)
    assert (3 * PIECE, size) == piece_range(size, 3)


def test_a_byte_is_enough_for_a_piece() -> None:
    """The last byte of one and the first of the next are two pieces; an empty stretch is none."""
    assert 0b11 == pieces_in([(PIECE - 1, PIECE + 1)])
    assert 0 == pieces_in([(7, 7)])


@given(STRETCHES)
def test_every_byte_of_a_stretch_is_in_its_pieces(stretches: list[tuple[int, int]]) -> None:
    """And what is more begins and ends less than a piece away from it."""
    ranges = [(start, start + length) for start, length in stretches]
    size = 44 * PIECE
    runs = runs_of(pieces_in(ranges), size)

    assert all(any(a <= start and end <= b for a, b in runs) for start, end in ranges if start < end)
    assert pieces_in(ranges) == pieces_in(runs)
    assert bytes_of(pieces_in(ranges), size) <= sum(end - start + 2 * PIECE for start, end in ranges)
