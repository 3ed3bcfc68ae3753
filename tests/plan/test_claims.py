"""What a node says is on its way to it is left to it for a while."""

from __future__ import annotations

from kboot.plan.claims import Claims

A, B = "a" * 64, "b" * 64


def test_a_piece_is_left_to_the_node_that_says_it_receives_it_for_so_long() -> None:
    """Each piece by itself, from when it was said first."""
    claims = Claims()
    claims.told({A: 0b011}, {}, 0.0)
    claims.told({A: 0b111, B: 0b1}, {}, 6.0)

    assert {A: 0b111, B: 0b1} == claims.younger(10.0, 10.0)
    assert {A: 0b100, B: 0b1} == claims.younger(10.0, 11.0)
    assert {} == claims.younger(10.0, 17.0)


def test_saying_so_again_gives_no_more_time() -> None:
    """A piece that was let go meanwhile is as old as it was."""
    claims = Claims()
    claims.told({A: 0b1}, {}, 0.0)
    claims.told({}, {}, 5.0)
    claims.told({A: 0b1}, {}, 9.0)

    assert {} == claims.younger(8.0, 9.0)


def test_a_piece_that_the_node_has_is_claimed_no_more() -> None:
    """Should it lose it, its time begins anew."""
    claims = Claims()
    claims.told({A: 0b1}, {}, 0.0)
    claims.told({}, {A: 0b1}, 5.0)
    claims.told({A: 0b1}, {}, 9.0)

    assert {A: 0b1} == claims.younger(1.0, 10.0)


def test_the_slowest_piece_is_known() -> None:
    """Of those that came and those that are on their way; one that was given up says nothing."""
    claims = Claims()
    assert 0.0 == claims.slowest_s(100.0)
    claims.told({A: 0b11}, {}, 0.0)
    claims.told({A: 0b10, B: 0b1}, {A: 0b01}, 3.0)
    assert 4.0 == claims.slowest_s(4.0)
    claims.told({B: 0b1}, {A: 0b01}, 4.0)

    assert 3.0 == claims.slowest_s(5.0)
