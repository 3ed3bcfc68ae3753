"""What a stream receives next: own pieces from the origin, the rest from who has it, and nothing twice."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from kboot.plan.exchange import ORIGIN, Fleet, Other, Pick, Want, choose, left_bytes
from kboot.plan.ownership import all_pieces, owned

MIB = 1 << 20
SIZE = 24 * MIB  # pieces of 1 MiB
BLOB, NEXT = "b" * 64, "d" * 64
NAMES = ("n0", "n1", "n2")
ALL = all_pieces(SIZE)


def own(name: str, blob: str = BLOB, gone: frozenset[str] = frozenset()) -> int:
    return owned(blob, 24, NAMES, gone, name)


def other(name: str, have: int = 0, fetching: int = 0, busy: int = 0) -> Other:
    return Other(name, {BLOB: have}, {BLOB: fetching}, busy)


def first(pieces: int) -> int:
    return (pieces & -pieces).bit_length() - 1


WANT = Want(BLOB, SIZE, ALL)
ALONE = Fleet("n0", NAMES, (other("n1"), other("n2")))


def test_own_pieces_come_from_the_origin_in_order() -> None:
    """The first of them first, so that files become whole from the front."""
    assert Pick(BLOB, first(own("n0")), ORIGIN) == choose([WANT], ALONE)


def test_a_file_that_is_for_one_node_alone_is_all_its_own() -> None:
    """No other node fetches a piece of it from the origin, so that none is left to them."""
    alone = replace(WANT, free=ALL & ~own("n0"), alone=True)

    assert Pick(BLOB, first(ALL & ~own("n0")), ORIGIN) == choose([alone], ALONE)


def test_pieces_of_others_are_left_to_them() -> None:
    """A node with nothing of its own left waits, although the origin would give more."""
    assert None is choose([replace(WANT, free=ALL & ~own("n0"))], ALONE)


def test_what_another_has_is_never_asked_of_the_origin() -> None:
    """A node that comes late finds its own pieces at others."""
    fleet = replace(ALONE, others=(other("n1", ALL), other("n2")))

    assert Pick(BLOB, 0, "n1") == choose([WANT], fleet)


def test_what_another_fetches_is_waited_for() -> None:
    """Somebody helped: the owner does not fetch it as well."""
    fleet = replace(ALONE, others=(other("n1", fetching=own("n0")), other("n2")))

    assert None is choose([WANT], fleet)


def test_what_a_lost_node_fetches_is_not_waited_for() -> None:
    """It may never come."""
    fleet = replace(ALONE, others=(other("n1", fetching=own("n0")), other("n2")), lost=frozenset({"n1"}))

    assert Pick(BLOB, first(own("n0", gone=frozenset({"n1"}))), ORIGIN) == choose([WANT], fleet)


def test_streams_are_shared_between_origin_and_others() -> None:
    """Both have work: whoever has fewer streams gets the next."""
    fleet = replace(ALONE, others=(other("n1", own("n1")), other("n2")))

    assert Pick(BLOB, first(own("n0")), ORIGIN) == choose([WANT], replace(fleet, from_origin=2, from_others=2))
    assert Pick(BLOB, first(own("n1")), "n1") == choose([WANT], replace(fleet, from_origin=2, from_others=1))


def test_the_least_busy_node_is_asked() -> None:
    """Of two that have it."""
    fleet = replace(ALONE, others=(other("n1", ALL, busy=1), other("n2", ALL)))

    assert Pick(BLOB, 0, "n2") == choose([WANT], fleet)


def test_nodes_begin_with_different_others() -> None:
    """So that not all ask the same one first."""
    everyone = {name: other(name, ALL) for name in NAMES}
    picks = {
        me: choose([WANT], Fleet(me, NAMES, tuple(o for name, o in everyone.items() if name != me))) for me in NAMES
    }

    assert 2 <= len({pick.source for pick in picks.values() if pick})


def test_pieces_of_a_lost_node_are_taken_over_at_once() -> None:
    """Together, the others own everything."""
    lost = frozenset({"n2"})

    assert ALL == own("n0", gone=lost) | own("n1", gone=lost)
    free = ALL & ~own("n0")
    pick = choose([replace(WANT, free=free)], replace(ALONE, lost=lost))
    assert pick is not None
    assert own("n2") >> pick.piece & 1


def test_a_node_that_was_never_seen_is_waited_for_while_there_is_other_work() -> None:
    """Its pieces are taken over last."""
    fleet = replace(ALONE, others=(other("n1"),), late=frozenset({"n2"}))
    taken_over = own("n0", gone=frozenset({"n2"})) & ~own("n0")

    assert Pick(BLOB, first(own("n0")), ORIGIN) == choose([WANT], fleet)
    rest = replace(WANT, free=ALL & ~own("n0"))
    assert Pick(BLOB, first(taken_over), ORIGIN) == choose([rest], fleet)
    assert None is choose([rest], replace(fleet, from_origin=1)), "one by one, since it may come any moment"


def test_a_slow_owner_is_helped_from_the_far_end() -> None:
    """By those who have nothing else to do; each takes others of its pieces."""
    free = ALL & ~own("n0") & ~own("n1")
    slow = frozenset({"n2"})
    mine = choose([replace(WANT, free=free)], replace(ALONE, slow=slow))
    theirs = choose([replace(WANT, free=free)], Fleet("n1", NAMES, (other("n0"), other("n2")), slow=slow))

    assert mine is not None and theirs is not None
    assert mine.piece != theirs.piece
    assert {ORIGIN} == {mine.source, theirs.source}
    assert own("n2") >> mine.piece & own("n2") >> theirs.piece & 1


def test_a_file_that_the_origin_refuses_comes_from_others_alone() -> None:
    """Own or not."""
    want = replace(WANT, from_origin=False)

    assert None is choose([want], ALONE)
    assert Pick(BLOB, 3, "n2") == choose([want], replace(ALONE, others=(other("n1"), other("n2", 1 << 3))))


def test_files_are_taken_in_order() -> None:
    """The next only when nothing of the first is to be had."""
    done = replace(WANT, free=ALL & ~own("n0"))
    pick = choose([done, Want(NEXT, SIZE, ALL)], ALONE)

    assert Pick(NEXT, first(own("n0", NEXT)), ORIGIN) == pick


def test_what_is_left_counts_only_what_nobody_has() -> None:
    """Pieces that a helper brought are not left."""
    fleet = replace(ALONE, others=(other("n1", own("n1")), other("n2", first_bit := own("n2") & -own("n2"))))

    assert (0, 7 * MIB) == (left_bytes([(BLOB, SIZE)], fleet, "n1"), left_bytes([(BLOB, SIZE)], fleet, "n2"))
    helped = replace(fleet, others=(other("n1", own("n1") | own("n2") & ~first_bit), fleet.others[1]))
    assert 0 == left_bytes([(BLOB, SIZE)], helped, "n2")


@settings(deadline=None)
@given(st.integers(1, 6), st.integers(1, 40), st.randoms(use_true_random=False))
def test_a_fleet_fetches_everything_once(nodes: int, pieces: int, random: object) -> None:
    """Whatever the order in which nodes get on: the origin gives every piece once, and every node ends with all."""
    names = tuple(f"n{n}" for n in range(nodes))
    size = pieces * MIB
    every = all_pieces(size)
    have = dict.fromkeys(names, 0)
    asked_of_origin = []
    while any(here != every for here in have.values()):
        me = random.choice([name for name in names if have[name] != every])  # type: ignore[attr-defined]
        others = tuple(Other(name, {BLOB: have[name]}, {}) for name in names if name != me)
        pick = choose([Want(BLOB, size, every & ~have[me])], Fleet(me, names, others))
        if pick is None:
            assert any(have[name] != every for name in names if name != me)
            continue
        if pick.source == ORIGIN:
            asked_of_origin.append(pick.piece)
        have[me] |= 1 << pick.piece

    assert list(range(len(asked_of_origin))) == sorted(asked_of_origin)
    assert every == sum(1 << piece for piece in asked_of_origin)
