"""Which pieces does a file have, of which each is proven by a digest of its own? Pure arithmetic.

A file is cut into pieces of PIECE_BYTES, numbered from 0; a set of pieces is a number whose bit n stands for piece n.
"""

from __future__ import annotations

from collections.abc import Iterable

PIECE_BYTES = 256 << 10
"""Small, since every node reads the scales of all experts, 0.3 MB each among weights of 5 MB (ADR 26 has figures). A TB
has 122 MB of digests."""

Pieces = int


def piece_count(size_bytes: int) -> int:
    """Return how many pieces a file has."""
    return -(-size_bytes // PIECE_BYTES)


def piece_range(size_bytes: int, piece: int) -> tuple[int, int]:
    """Return the bytes [start, end) of a piece."""
    return piece * PIECE_BYTES, min(size_bytes, (piece + 1) * PIECE_BYTES)


def pieces_in(ranges: Iterable[tuple[int, int]]) -> Pieces:
    """Return the pieces that have a byte in the ranges."""
    found = 0
    for start, end in ranges:
        if start < end:
            first, last = start // PIECE_BYTES, (end - 1) // PIECE_BYTES
            found |= ((1 << (last - first + 1)) - 1) << first
    return found


def runs_of(pieces: Pieces, size_bytes: int) -> tuple[tuple[int, int], ...]:
    """Return the stretches [start, end) of bytes that the pieces make up, ascending; neighbours are one."""
    found, first = [], 0
    while pieces:
        skipped = (pieces & -pieces).bit_length() - 1
        pieces >>= skipped
        length = (~pieces & (pieces + 1)).bit_length() - 1
        first += skipped
        found.append((first * PIECE_BYTES, min(size_bytes, (first + length) * PIECE_BYTES)))
        pieces >>= length
        first += length
    return tuple(found)


def bytes_of(pieces: Pieces, size_bytes: int) -> int:
    """Return how many bytes the pieces have."""
    return sum(end - start for start, end in runs_of(pieces, size_bytes))
