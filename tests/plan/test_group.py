"""A fleet is cut into groups of nodes that serve together, the same on every node."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kboot.errors import FactMissing
from kboot.facts.fleet_types import FleetFacts, FleetNode
from kboot.plan.group import Group, group_of, is_whole


def fleet(number: int, me: int | None = 0) -> FleetFacts:
    return FleetFacts(me, tuple(FleetNode(f"n{n}", f"10.0.0.{n}", 7417) for n in range(number)), "fleet.peers")


def test_the_place_in_the_fleet_is_the_rank() -> None:
    """Rank and head come from the list of nodes; nothing has to be given on the command line."""
    found = fleet(4, me=2)

    assert Group(2, "10.0.0.0", found.nodes) == group_of(found, 4)


def test_a_larger_fleet_is_several_groups() -> None:
    """Eight nodes of a layout of four: the sixth is rank 1 of the second group."""
    found = fleet(8, me=5)

    assert Group(1, "10.0.0.4", found.nodes[4:]) == group_of(found, 4)


def test_a_layout_of_one_node_needs_nobody() -> None:
    """Nodes that share bytes and serve alone."""
    assert Group() == group_of(fleet(8, me=5), 1)
    assert Group() == group_of(FleetFacts(), 4)


def test_what_an_operator_gives_is_taken() -> None:
    """Rank and head address by option win over what was found."""
    assert Group(3, "head", ()) == group_of(fleet(4, me=1), 4, 3, "head")
    assert Group(3, "127.0.0.1", ()) == group_of(FleetFacts(), 4, 3)


@pytest.mark.parametrize(
    ("found", "code", "said"),
    [
        (fleet(3), "fleet-incomplete", "the layout spans 4 nodes, fleet.peers gives 3"),
        (fleet(6), "fleet-incomplete", "the layout spans 4 nodes, fleet.peers gives 6"),
        (fleet(0), "fleet-incomplete", "the layout spans 4 nodes, fleet.peers gives 0"),
        (fleet(4, me=None), "not-in-fleet", "this node is none of the 4 nodes of fleet.peers"),
    ],
)
def test_a_fleet_that_cannot_be_cut_is_refused(found: FleetFacts, code: str, said: str) -> None:
    """With what was found and what was wanted."""
    with pytest.raises(FactMissing) as caught:
        group_of(found, 4)

    assert (code, said) == (caught.value.code, caught.value.message)


@given(st.integers(1, 8), st.integers(1, 8))
def test_every_node_is_in_one_group_and_all_members_know_it(groups: int, nodes: int) -> None:
    """Each node's group, seen by itself, is the one that its members see."""
    found = fleet(groups * nodes)
    for me in range(len(found.nodes)):
        group = group_of(replace(found, me=me), nodes)
        assert nodes == 1 or (found.nodes[me], nodes) == (group.members[group.rank], len(group.members))
        assert nodes == 1 or group.head == group.members[0].host
        assert is_whole(replace(found, me=me), nodes)
