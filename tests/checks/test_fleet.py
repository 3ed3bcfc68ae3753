"""Nodes that must be the same are compared, and the odd one is named with what it has."""

from __future__ import annotations

from dataclasses import replace

from good_node import CHECKPOINT, GIB, NODE, PROFILE
from hypothesis import given
from hypothesis import strategies as st

from kboot.checks import fleet_agree
from kboot.checks.agreement import Difference, differences, odd_nodes, sentence
from kboot.facts.fleet_types import FleetFacts, NodeStatement

GOOD = {"commit": "c0ffee", "driver": "580.95.05"}


def stated(*values: dict[str, str], free: tuple[int | None, ...] = ()) -> tuple[NodeStatement, ...]:
    return tuple(
        NodeStatement(f"node{n}", {**GOOD, **each}, free[n] if n < len(free) else None) for n, each in enumerate(values)
    )


def told(*statements: NodeStatement) -> list[str]:
    return [sentence(each) for each in differences(statements)]


def test_nodes_that_state_the_same_agree() -> None:
    """No difference, however many they are."""
    assert () == differences(stated({}, {}, {}))
    assert () == differences(stated({}))
    assert () == differences(())


def test_the_odd_node_is_named_with_its_value() -> None:
    """Most nodes decide what is usual."""
    found = stated({}, {"driver": "570.86.15"}, {}, {})

    assert ["driver: node1 has 570.86.15, the others have 580.95.05"] == told(*found)
    assert {"node1"} == odd_nodes(differences(found))


def test_of_two_nodes_both_values_are_named() -> None:
    """Nobody can say which of two is right; the same goes for two halves."""
    assert ["driver: node0 has 580.95.05, node1 has 570.86.15"] == told(*stated({}, {"driver": "570.86.15"}))
    assert set() == odd_nodes(differences(stated({}, {}, {"driver": "570"}, {"driver": "570"})))


def test_a_value_that_one_node_does_not_state_differs() -> None:
    """An older agent that knows a value less is odd, not equal."""
    assert ["caches: node0 has not stated, the others have complete"] == [
        text.replace("kernel caches", "caches")
        for text in told(*stated({}, {"caches": "complete"}, {"caches": "complete"}))
    ]


def test_the_agents_version_may_differ_while_everything_else_may_not() -> None:
    """A fleet whose agents are upgraded one by one still starts; it is told all the same."""
    (found,) = differences(stated({"kboot": "0.2"}, {"kboot": "0.3"}, {"kboot": "0.3"}))

    assert (False, "version of kboot: node0 has 0.2, the others have 0.3") == (found.stops, sentence(found))


def test_a_node_with_less_free_memory_is_odd() -> None:
    """By more than a twentieth: a few MiB differ on every boot."""
    much, less, near = 140 * GIB, 100 * GIB, 140 * GIB - (64 << 20)

    assert ["free GPU memory: node2 has 100 GiB, the others have 140 GiB"] == told(
        *stated({}, {}, {}, free=(much, much, less))
    )
    assert ["free GPU memory: node0 has 140 GiB, node1 has 100 GiB"] == told(*stated({}, {}, free=(much, less)))
    assert [] == told(*stated({}, {}, {}, free=(much, near, much)))
    assert [] == told(*stated({}, {}, free=(None, less)))


@given(st.lists(st.dictionaries(st.sampled_from("abc"), st.sampled_from("xy")), max_size=6))
def test_nodes_differ_exactly_when_their_values_do(values: list[dict[str, str]]) -> None:
    """Whatever is stated: no difference means equal, and each difference names who has what."""
    found = stated(*values)

    assert (not differences(found)) == all(s.values == found[0].values for s in found)
    for each in differences(found):
        assert all((found[int(name[4:])].values.get(each.what) or "not stated") == v for name, v in each.values.items())


def test_what_the_nodes_stated_is_judged() -> None:
    """The finding counts them and says when; one that differs fails with its name and value."""
    assert ("ok", "2 nodes stated the same, 5 min ago") == _answer(NODE.fleet)
    three = (*NODE.fleet.statements, NodeStatement("node9", {"driver": "570.86.15"}))
    assert ("fail", "driver: node9 has 570.86.15, the others have 580.95.05 (5 min ago)") == _answer(
        replace(NODE.fleet, statements=three)
    )


def test_without_a_meeting_there_is_nothing_to_judge() -> None:
    """A node alone is no fleet."""
    assert "skip" == _answer(FleetFacts())[0]


def test_a_difference_that_stops_nothing_is_a_warning() -> None:
    """Agents of different versions."""
    two = tuple(replace(s, values={"kboot": f"0.{n}"}) for n, s in enumerate(NODE.fleet.statements))

    assert ("warn", "version of kboot: node7 has 0.0, node8 has 0.1 (5 min ago)") == _answer(
        replace(NODE.fleet, statements=two)
    )


def test_many_odd_nodes_are_counted() -> None:
    """A line stays a line with hundreds of nodes."""
    odd = Difference("driver", "580", {f"n{n}": "570" for n in range(9)})

    assert "driver: n0 has 570, n1 has 570, n2 has 570, n3 has 570 and 5 more, the others have 580" == sentence(odd)


def _answer(fleet: FleetFacts) -> tuple[str, str]:
    finding = fleet_agree.run(replace(NODE, fleet=fleet), PROFILE, CHECKPOINT)
    return finding.status, finding.seen
