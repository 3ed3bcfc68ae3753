"""Which node of a fleet fetches which part of each file from the origin, so that together they fetch it once?

Every node computes the same answer from the names of the nodes and the file alone: nothing has to be agreed on. Pieces
are numbered, and a set of pieces is a whole number whose bit n stands for piece n.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Sequence
from functools import lru_cache

_MIB = 1 << 20
_SMALLEST_BYTES = 1 * _MIB
_LARGEST_BYTES = 64 * _MIB
_PIECES = 32
"""A file has about so many pieces: enough for many nodes, few enough that a request costs little."""

Pieces = int


def piece_bytes(size_bytes: int) -> int:
    """Return how large the pieces of a file are, the same on every node; the last one may be shorter."""
    wanted = -(-size_bytes // _PIECES)
    return min(_LARGEST_BYTES, max(_SMALLEST_BYTES, -(-wanted // _MIB) * _MIB))


def piece_count(size_bytes: int) -> int:
    """Return how many pieces a file has."""
    return -(-size_bytes // piece_bytes(size_bytes)) if size_bytes else 0


def all_pieces(size_bytes: int) -> Pieces:
    """Return the set of all pieces of a file."""
    return (1 << piece_count(size_bytes)) - 1


def range_of(size_bytes: int, piece: int) -> tuple[int, int]:
    """Return the bytes [start, end) of a piece."""
    step = piece_bytes(size_bytes)
    return piece * step, min(size_bytes, (piece + 1) * step)


def touched(size_bytes: int, ranges: Iterable[tuple[int, int]]) -> Pieces:
    """Return the pieces that have a byte in the ranges."""
    step = piece_bytes(size_bytes)
    found = 0
    for start, end in ranges:
        if start < end:
            found |= _run(start // step, (end - 1) // step + 1)
    return found


def covered(size_bytes: int, ranges: Iterable[tuple[int, int]]) -> Pieces:
    """Return the pieces of which every byte is in the ranges."""
    step = piece_bytes(size_bytes)
    found = 0
    for start, end in ranges:
        last = piece_count(size_bytes) if end >= size_bytes else end // step
        found |= _run(-(-start // step), last)
    return found


def members(pieces: Pieces) -> tuple[int, ...]:
    """Return the numbers of the pieces, ascending."""
    found = []
    while pieces:
        lowest = pieces & -pieces
        found.append(lowest.bit_length() - 1)
        pieces ^= lowest
    return tuple(found)


@lru_cache(maxsize=8192)  # asked again for every piece that moves
def owned(blob_id: str, count: int, names: tuple[str, ...], gone: frozenset[str], me: str) -> Pieces:
    """Return the pieces of a file that are for a node to fetch from the origin.

    count: pieces of the file. names: all nodes of the fleet, in any order. gone: those that do not count now; their
    pieces are spread over the others, and nobody else's move.
    """
    nodes = sorted(set(names))
    here = [name for name in nodes if name not in gone]
    if me not in here:
        return 0
    found = 0
    first = _number(blob_id) % len(nodes)
    for piece in range(count):
        owner = nodes[(first + piece) % len(nodes)]
        if owner in gone:
            owner = _heir(blob_id, piece, here)
        if owner == me:
            found |= 1 << piece
    return found


def to_help_with(blob_id: str, pieces: Pieces, me: str, helpers: Collection[str]) -> Pieces:
    """Return which of an owner's pieces of a file a node takes when it helps, so that no two helpers take the same.

    The owner works from the front; helpers begin at the far end.
    """
    order = sorted(set(helpers))
    if me not in order:
        return 0
    turn = (order.index(me) + _number(blob_id)) % len(order)
    mine = members(pieces)[::-1][turn :: len(order)]
    return sum(1 << piece for piece in mine)


def _heir(blob_id: str, piece: int, here: Sequence[str]) -> str:
    """Return who takes over a piece: of all nodes that are here the one with the highest number for it."""
    return max(here, key=lambda name: (_number(f"{blob_id} {piece} {name}"), name))


def _number(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big")


def _run(first: int, end: int) -> Pieces:
    return ((1 << (end - first)) - 1) << first if end > first else 0
