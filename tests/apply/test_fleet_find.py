"""A fleet whose nodes appear one by one is waited for, within bounds."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from kboot.apply.fleet_find import whole_fleet
from kboot.events import Event, Notice
from kboot.facts.fleet_types import FleetFacts, FleetNode
from kboot.profile.types import Discovery, FleetAsk


def fleet(number: int) -> FleetFacts:
    return FleetFacts(0, tuple(FleetNode(f"n{n}", f"n{n}", 1) for n in range(number)), "addresses of fleet.example")


def ask(discovery: Discovery = "dns", start_timeout_s: float = 60.0) -> FleetAsk:
    return FleetAsk(discovery=discovery, dns="fleet.example", key_file="/k", start_timeout_s=start_timeout_s)


def looks(numbers: Sequence[int]) -> Callable[[], FleetFacts]:
    """Return a look that sees so many nodes at each turn, and then no others."""
    turns = iter(numbers)
    return lambda: fleet(next(turns, numbers[-1]))


def never() -> FleetFacts:
    raise AssertionError("looked")


def notices(seen: list[Event]) -> list[str]:
    return [event.text for event in seen if isinstance(event, Notice)]


def test_a_list_that_does_not_change_is_not_waited_for() -> None:
    """Nor is a node that serves alone, nor a fleet that is whole."""
    seen: list[Event] = []
    for how, nodes in ((ask("static"), 4), (ask("slurm"), 4), (ask(), 1), (ask(), 2)):
        assert fleet(2) == whole_fleet(never, how, fleet(2), nodes, seen.append, threading.Event())
    assert [] == seen


def test_nodes_that_appear_one_by_one_are_waited_for() -> None:
    """Each number is said once; four are a whole group."""
    seen: list[Event] = []
    found = whole_fleet(looks([1, 3, 3, 4]), ask(), fleet(1), 4, seen.append, threading.Event(), again_s=0.001)

    assert fleet(4) == found
    assert [f"addresses of fleet.example gives {n} nodes, 4 are wanted" for n in (1, 3)] == notices(seen)


def test_a_fleet_that_stays_too_small_is_taken_as_it_was_seen_last() -> None:
    """When the time is over, whatever was seen until then; who needs more nodes says so."""
    found = whole_fleet(looks([3]), ask(start_timeout_s=0.05), fleet(1), 4, lambda _: None, threading.Event(), 0.001)

    assert found in (fleet(1), fleet(3))


def test_a_boot_that_is_stopped_does_not_wait() -> None:
    """It takes what there is."""
    stop = threading.Event()
    stop.set()

    assert fleet(1) == whole_fleet(never, ask(), fleet(1), 4, lambda _: None, stop)
