"""Nodes that come and go while a fetch is on are noticed, and a resolver that errs sends nobody away."""

from __future__ import annotations

import threading
from collections.abc import Mapping

from fakes.peer import KEY
from kboot.apply.fleet_list import Membership, follow_list
from kboot.sources.peers import Peer


def test_who_is_listed_belongs_to_the_fleet_at_once() -> None:
    """A node that comes late is one from then on."""
    assert {"a", "b", "c"} == Membership(["a", "b"]).told(["a", "b", "c"])


def test_who_is_missing_twice_in_a_row_has_left() -> None:
    """Once may be an answer that was cut; a node that is there again begins anew."""
    membership = Membership(["a", "b"])

    assert {"a", "b"} == membership.told(["a"])
    assert {"a", "b"} == membership.told(["a", "b"])
    assert {"a", "b"} == membership.told(["a"])
    assert {"a"} == membership.told(["a"])
    assert {"a", "b"} == membership.told(["a", "b"])


def test_a_list_of_nobody_says_nothing() -> None:
    """A resolver that is away for long keeps the fleet together."""
    membership = Membership(["a", "b"])

    assert [{"a", "b"}] * 3 == [membership.told([]) for _ in range(3)]


def test_it_is_looked_up_until_the_fetch_ends() -> None:
    """And what is heard after that is told nobody."""
    ended, told = threading.Event(), list[tuple[list[str], frozenset[str]]]()
    answers = iter([["a"], ["a", "b"], ["a", "c"]])

    def look_up() -> Mapping[str, Peer]:
        names = next(answers)
        if "c" in names:
            ended.set()
        return {name: Peer(name, "127.0.0.1", 9, KEY, 1.0) for name in names}

    follow_list(look_up, ["a"], lambda peers, names: told.append((sorted(peers), names)), ended, 0.001)

    assert [(["a"], frozenset("a")), (["a", "b"], frozenset("ab"))] == told
