"""Which piece does a stream receive next, and from whom, so that a fleet asks its origin once for every byte?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from kboot.plan.ownership import Pieces, owned, piece_bytes, piece_count, to_help_with
from kboot.values import dataclass

ORIGIN = ""
"""Stands for the sources of the profile where the name of a node could stand."""


@dataclass(frozen=True, slots=True)
class Want:
    """A file that is not whole here.

    free: pieces that are missing and that no stream receives. from_origin: the origin may be asked for it. alone: no
    other node fetches it from there.
    """

    blob_id: str
    size_bytes: int
    free: Pieces
    from_origin: bool = True
    alone: bool = False


@dataclass(frozen=True, slots=True)
class Other:
    """What is known of another node. busy: streams of this node that receive from it. Pieces stand by blob id."""

    name: str
    have: Mapping[str, Pieces]
    fetching: Mapping[str, Pieces]
    busy: int = 0


@dataclass(frozen=True, slots=True)
class Fleet:
    """The fleet as this node sees it now.

    names: of all nodes. others: those that answer and may be asked. lost: nodes whose pieces are for the others from
    now on. late: nodes that were not seen yet. slow: nodes that would take long for what is left of theirs. Both are
    helped with, piece by piece. from_origin, from_others: streams that receive from each.
    """

    me: str
    names: tuple[str, ...]
    others: tuple[Other, ...]
    lost: frozenset[str] = frozenset()
    late: frozenset[str] = frozenset()
    slow: frozenset[str] = frozenset()
    from_origin: int = 0
    from_others: int = 0


@dataclass(frozen=True, slots=True)
class Pick:
    """A piece to receive now. source: name of a node, or ORIGIN."""

    blob_id: str
    piece: int
    source: str


def choose(wants: Sequence[Want], fleet: Fleet) -> Pick | None:
    """Return what to receive next; None where the others' work has to be waited for.

    wants: in the order in which files should become whole. Streams are shared between the origin and the others; what
    nobody fetches now is taken over only when there is nothing else to do.
    """
    own = _from_origin(wants, fleet, fleet.lost)
    given = _from_others(wants, fleet)
    both = (own, given) if fleet.from_origin <= fleet.from_others else (given, own)
    if now := next((pick for pick in map(next, both, (None, None)) if pick), None):
        return now
    if fleet.from_origin:
        return None  # one at a time: the owner may begin with the same piece before it hears of it
    later = (_from_origin(wants, fleet, fleet.lost | fleet.late), _help(wants, fleet))
    return next((pick for picks in later for pick in picks), None)


def _from_origin(wants: Sequence[Want], fleet: Fleet, gone: frozenset[str]) -> Iterator[Pick]:
    """Yield pieces that are this node's to fetch and that no node has or fetches."""
    for want in wants:
        if want.from_origin and want.free:
            names = (fleet.me,) if want.alone else fleet.names
            mine = owned(want.blob_id, piece_count(want.size_bytes), names, gone, fleet.me)
            if left := mine & want.free & ~_elsewhere(want, fleet):
                yield Pick(want.blob_id, _first(left), ORIGIN)


def _from_others(wants: Sequence[Want], fleet: Fleet) -> Iterator[Pick]:
    """Yield pieces that others have, from those first that this node asks for the least."""
    turn = fleet.names.index(fleet.me) if fleet.me in fleet.names else 0
    order = sorted(range(len(fleet.others)), key=lambda n: (fleet.others[n].busy, (n - turn) % len(fleet.others)))
    for other in (fleet.others[n] for n in order):
        for want in wants:
            if here := want.free & other.have.get(want.blob_id, 0):
                yield Pick(want.blob_id, _first(here), other.name)
                break


def _help(wants: Sequence[Want], fleet: Fleet) -> Iterator[Pick]:
    """Yield pieces of slow owners, from the far end of what is left to them."""
    helpers = frozenset(fleet.names) - fleet.lost - fleet.late - fleet.slow
    gone = fleet.lost | fleet.late
    for owner in sorted(fleet.slow):
        for want in reversed(wants):
            if want.from_origin and want.free:
                theirs = owned(want.blob_id, piece_count(want.size_bytes), fleet.names, gone, owner)
                share = to_help_with(want.blob_id, theirs, fleet.me, helpers)
                if mine := share & want.free & ~_elsewhere(want, fleet):
                    yield Pick(want.blob_id, mine.bit_length() - 1, ORIGIN)


def _elsewhere(want: Want, fleet: Fleet) -> Pieces:
    """Return the pieces that another node has, or will have soon."""
    found = 0
    for other in fleet.others:
        found |= other.have.get(want.blob_id, 0)
        if other.name not in fleet.lost:
            found |= other.fetching.get(want.blob_id, 0)
    return found


def _first(pieces: Pieces) -> int:
    return (pieces & -pieces).bit_length() - 1


def left_bytes(files: Sequence[tuple[str, int]], fleet: Fleet, name: str) -> int:
    """Return about how many bytes a node has still to fetch, of those that nobody has. files: blob id and size."""
    gone = fleet.lost | fleet.late
    found = 0
    for blob_id, size_bytes in files:
        theirs = owned(blob_id, piece_count(size_bytes), fleet.names, gone, name)
        for other in fleet.others:
            theirs &= ~other.have.get(blob_id, 0)
        found += theirs.bit_count() * piece_bytes(size_bytes)
    return found
