"""All nodes of a fleet start together, or none does; whoever is missing or odd is named."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field

import pytest

from kboot.apply.fleet_ask import asker
from kboot.apply.fleet_meeting import Meeting
from kboot.apply.fleet_state import STATE_TARGET, Decision, FleetState, NodeState, Stage
from kboot.apply.peer_server import PeerServer
from kboot.errors import ActionFailed, KbootError, NotReady
from kboot.events import Event, Notice
from kboot.facts.fleet_types import FleetNode, NodeStatement
from kboot.host.clock import monotonic_s
from kboot.host.range_server import RangeServer, Reply
from kboot.sources.fleet_auth import FleetKey

KEY, OTHER_KEY = FleetKey(b"k" * 32), FleetKey(b"o" * 32)
LONG_S = 60.0
"""A deadline that no test reaches."""
SHORT_S = 0.4
"""One that tests of a missing node wait for."""


class Clock:
    """Time that passes when a test says so."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


@dataclass
class Node:
    """One agent: its state, and a real server that tells it on an address of its own."""

    rank: int
    key: FleetKey = KEY
    driver: str = "580.95.05"
    seen: list[Event] = field(default_factory=list)
    stop: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self.state = FleetState(f"node{self.rank}")
        self.state.change(statement=NodeStatement(self.state.name, {"driver": self.driver}))
        pages = {STATE_TARGET: lambda: self.state.page()}
        self.server = PeerServer(f"127.0.0.{self.rank + 1}", 0, self.key, pages, self.seen.append)

    @property
    def peer(self) -> FleetNode:
        return FleetNode(f"node{self.rank}", self.server.address, self.server.port)

    def meet(
        self, members: Sequence[FleetNode], timeout_s: float, clock: Clock | None = None, *, refuse: bool = True
    ) -> Decision:
        ask, clock_s = asker(self.key), clock or monotonic_s
        return Meeting(
            members, self.rank, self.state, ask, timeout_s, self.seen.append, self.stop, refuse, 0.01, clock_s
        ).meet()

    def notices(self) -> list[str]:
        return [event.text for event in self.seen if isinstance(event, Notice)]


class Fleet:
    """Nodes whose meetings run side by side."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self.pool = ThreadPoolExecutor(8)

    def add(self, **changes: object) -> Node:
        node = Node(len(self.nodes), **changes)  # type: ignore[arg-type]
        self.nodes.append(node)
        return node

    @property
    def members(self) -> tuple[FleetNode, ...]:
        return tuple(node.peer for node in self.nodes)

    def begin(
        self, node: Node, timeout_s: float = LONG_S, clock: Clock | None = None, *, refuse: bool = True
    ) -> Future[Decision]:
        return self.pool.submit(node.meet, self.members, timeout_s, clock, refuse=refuse)

    def close(self) -> None:
        for node in self.nodes:
            node.stop.set()
        self.pool.shutdown()
        for node in self.nodes:
            node.server.close()


@pytest.fixture
def fleet() -> Iterator[Fleet]:
    made = Fleet()
    yield made
    made.close()


def error(future: Future[Decision]) -> KbootError:
    """Return what a meeting ended with."""
    raised = future.exception(timeout=LONG_S)
    assert isinstance(raised, KbootError), raised
    return raised


def wait_for(is_so: Callable[[], bool]) -> None:
    """Wait until something is so."""
    for _ in range(6000):
        if is_so():
            return
        threading.Event().wait(0.01)
    raise AssertionError("it was never so")


def until(stage: Stage, node: Node) -> None:
    """Wait until a node is in a stage."""
    wait_for(lambda: node.state.now().stage == stage)


@pytest.mark.parametrize("number", [2, 4])
def test_nodes_that_agree_start_together(fleet: Fleet, number: int) -> None:
    """Whoever comes last, all are released by one decision that names them."""
    nodes = [fleet.add() for _ in range(number)]
    begun = [fleet.begin(node) for node in reversed(nodes)]

    decisions = [future.result(timeout=LONG_S) for future in begun]

    assert 1 == len({decision.round for decision in decisions})
    assert {node.state.name: node.state.now().run for node in nodes} == decisions[0].runs
    assert ["started"] * number == [node.state.now().stage for node in nodes]
    assert number == len(decisions[0].statements)


def test_the_odd_node_is_named_on_every_node_and_nobody_starts(fleet: Fleet) -> None:
    """One with another driver keeps all back; its value stands in each node's error."""
    nodes = [fleet.add(), fleet.add(), fleet.add(driver="570.86.15"), fleet.add()]

    errors = [error(future) for future in [fleet.begin(node) for node in nodes]]

    assert ["fleet-disagrees"] * 4 == [each.code for each in errors]
    assert all("driver: node2 has 570.86.15, the others have 580.95.05" in each.message for each in errors)
    assert "bring node2 in line" == errors[0].hint
    assert {"failed"} == {node.state.now().stage for node in nodes}


def test_nodes_that_differ_start_where_the_operator_says_so(fleet: Fleet) -> None:
    """The difference is told all the same."""
    nodes = [fleet.add(), fleet.add(driver="570.86.15")]

    for future in [fleet.begin(node, refuse=False) for node in nodes]:
        assert "start" == future.result(timeout=LONG_S).verdict
    assert "driver: node0 has 580.95.05, node1 has 570.86.15" in nodes[0].notices()


def test_a_node_that_never_comes_is_named_and_not_waited_for_without_end(fleet: Fleet) -> None:
    """The head says who is missing and why, and the others, which see the head only, hear it there."""
    nodes = [fleet.add(), fleet.add(), fleet.add()]
    nodes[2].server.close()
    other_begun = fleet.begin(nodes[1])
    until("ready", nodes[1])
    head, other = error(fleet.begin(nodes[0], SHORT_S)), error(other_begun)

    assert ("fleet-not-together", "fleet-not-together") == (head.code, other.code)
    assert "1 of 3 nodes lack" in head.message
    assert "node2 (no answer: " in head.message
    assert "refuses connections" in head.message
    assert f"node0 gave up: {head.message}" == other.message


def test_nodes_whose_time_is_over_together_hear_from_the_head_who_is_missing() -> None:
    """It alone looks at everybody; who gave up at the same moment could only say that the head did nothing."""
    clock, members = Clock(), (FleetNode("n0", "n0", 1), FleetNode("n1", "n1", 1), FleetNode("n2", "n2", 1))
    state = FleetState("n1")
    looks = iter((1000.0, 1011.0, 1012.0, 1013.0))  # when the head answers; this node's time ends at 1010

    def ask(_: FleetNode) -> NodeState:
        clock.now_s = next(looks)
        if clock.now_s < 1013.0:
            return NodeState("n0", "run", "ready")
        gave_up = Decision("r", "gave-up", {"n1": state.now().run}, ("1 of 3 nodes lack: n2",))
        return NodeState("n0", "run", "failed", decision=gave_up)

    meeting = Meeting(members, 1, state, ask, 10.0, lambda _: None, threading.Event(), pace_s=0.0, clock=clock)
    with pytest.raises(NotReady) as caught:
        meeting.meet()

    assert "n0 gave up: 1 of 3 nodes lack: n2" == caught.value.message


def test_a_node_that_dies_before_the_start_is_named(fleet: Fleet) -> None:
    """It was ready, then its process ended: what it was and that it does not answer both stand in the error."""
    nodes = [fleet.add(), fleet.add()]
    nodes[1].state.change(stage="ready", statement=None)  # its statement is not there yet: the head keeps waiting
    clock = Clock()
    begun = fleet.begin(nodes[0], 1e6, clock)
    wait_for(lambda: _told(nodes[0], clock, "node1 (ready)"))
    nodes[1].server.close()
    wait_for(lambda: _told(nodes[0], clock, "node1 (no answer: "))
    clock.now_s += 2e6

    assert "node1 (no answer: " in error(begun).message
    assert "; it was ready before)" in error(begun).message


def _told(node: Node, clock: Clock, text: str) -> bool:
    """Let a minute pass, and return whether the node said that it waits for somebody in that state."""
    clock.now_s += 61.0
    return any(text in notice for notice in node.notices())


def test_a_node_that_was_started_again_is_proposed_to_anew(fleet: Fleet) -> None:
    """What the earlier process accepted does not count; the new one takes part in the next round."""
    nodes = [fleet.add(), fleet.add(), fleet.add()]
    first = fleet.begin(nodes[0])
    second = fleet.begin(nodes[1])
    nodes[2].state.change(stage="ready")
    until("accepted", nodes[1])
    earlier = nodes[2].state.now()
    nodes[2].state.begin_again()
    nodes[2].state.change(statement=earlier.statement)
    third = fleet.begin(nodes[2])

    decisions = [future.result(timeout=LONG_S) for future in (first, second, third)]

    assert nodes[2].state.now().run == decisions[0].runs["node2"] != earlier.run
    assert "node2 was started again before the start" in nodes[0].notices()


def test_a_node_with_another_key_is_a_stranger_to_the_others(fleet: Fleet) -> None:
    """Neither side hears the other: both name what is wrong with the key."""
    nodes = [fleet.add(), fleet.add(key=OTHER_KEY)]

    head, other = (error(future) for future in [fleet.begin(node, SHORT_S) for node in nodes])

    assert "other-key" in head.message
    assert "other-key" in other.message
    assert any("asked this node as a node of its fleet: other-key" in text for text in nodes[1].notices())


def test_a_server_that_knows_no_key_is_not_believed(fleet: Fleet) -> None:
    """Whatever answers on a node's address has to prove itself before it can release anybody."""
    node = fleet.add()
    fake = FleetState("node1")
    fake.change(stage="ready", statement=NodeStatement("node1", {"driver": "580.95.05"}))
    server = RangeServer("127.0.0.9", 0, lambda _asked: Reply(200, {}, fake.page()))
    try:
        members = (node.peer, FleetNode("node1", "127.0.0.9", server.port))
        with pytest.raises(NotReady) as caught:
            node.meet(members, SHORT_S)
    finally:
        server.close()

    assert "does not know the fleet's key" in caught.value.message


def test_a_head_that_cannot_be_reached_leaves_its_node_with_the_reason(fleet: Fleet) -> None:
    """A partition in which the head sees a node that does not see it: the head waits for its word, then both end."""
    nodes = [fleet.add(), fleet.add()]
    lost = (FleetNode("node0", "127.0.0.1", 9), nodes[1].peer)
    other = fleet.pool.submit(nodes[1].meet, lost, SHORT_S)
    head = fleet.begin(nodes[0], SHORT_S)

    assert "the head has not released the start" in error(other).message
    assert "node0 (no answer: " in error(other).message
    assert isinstance(error(head), NotReady)
    assert "node1" in error(head).message


def test_an_answer_of_another_node_is_none(fleet: Fleet) -> None:
    """An address that leads to the wrong node is found out by its name."""
    nodes = [fleet.add(), fleet.add()]
    nodes[1].state.change(name="elsewhere")

    assert "answers elsewhere" in error(fleet.begin(nodes[0], SHORT_S)).message


def test_work_that_gets_on_elsewhere_is_waited_for(fleet: Fleet) -> None:
    """Bytes that arrive on the last node make every node's deadline later, also those that see the head only."""
    nodes, clock = [fleet.add(), fleet.add(), fleet.add()], Clock()
    begun = [fleet.begin(node, 240.0, clock) for node in nodes[:2]]
    wait_for(lambda: _get_on(nodes[2]) and nodes[0].state.now().moved > 0)
    for _ in range(5):
        before = nodes[0].state.now().moved
        _get_on(nodes[2])
        wait_for(lambda moved=before: nodes[0].state.now().moved > moved)  # type: ignore[misc]
        clock.now_s += 200.0
    begun.append(fleet.begin(nodes[2], 240.0, clock))

    assert ["start"] * 3 == [future.result(timeout=LONG_S).verdict for future in begun]


def _get_on(node: Node) -> bool:
    node.state.change(have_bytes=node.state.now().have_bytes + 1, total_bytes=1 << 40)
    return True


def test_a_boot_that_is_stopped_does_not_wait(fleet: Fleet) -> None:
    """On either side, as soon as it is asked to."""
    nodes = [fleet.add(), fleet.add()]
    nodes[1].state.change(stage="preparing")
    begun = fleet.begin(nodes[0])
    until("ready", nodes[0])
    nodes[0].stop.set()

    assert "interrupted" == error(begun).code
    assert "stopped" == nodes[0].state.now().stage


def test_no_head_is_no_excuse_to_start(fleet: Fleet) -> None:
    """A decision for other processes than this one is not this one's."""
    nodes = [fleet.add(), fleet.add()]
    foreign = Decision("r", "start", {"node0": "x", "node1": "another run"})
    nodes[0].state.change(stage="ready", decision=foreign)

    assert isinstance(error(fleet.begin(nodes[1], SHORT_S)), NotReady)
    refused = Decision("r", "refuse", {"node1": nodes[1].state.now().run}, ("driver differs",))
    nodes[0].state.change(decision=refused)
    assert isinstance(error(fleet.begin(nodes[1])), ActionFailed)


def test_a_node_that_takes_the_place_of_another_joins_those_that_have_started(fleet: Fleet) -> None:
    """An engine that lost a rank is started again by its units and waits for it: no second meeting of all is needed."""
    nodes = [fleet.add(), fleet.add(), fleet.add()]
    for future in [fleet.begin(node) for node in nodes]:
        future.result(timeout=LONG_S)
    statement = nodes[2].state.now().statement
    nodes[2].state.begin_again()
    nodes[2].state.change(statement=statement)

    assert "start" == fleet.begin(nodes[2]).result(timeout=LONG_S).verdict
    assert "the others have started before, as node0 says: it joins them" in nodes[2].notices()


def test_a_head_that_is_replaced_joins_too(fleet: Fleet) -> None:
    """The others have started, and agree with it."""
    nodes = [fleet.add(), fleet.add()]
    for future in [fleet.begin(node) for node in nodes]:
        future.result(timeout=LONG_S)
    statement = nodes[0].state.now().statement
    nodes[0].state.begin_again()
    nodes[0].state.change(statement=statement)

    assert "start" == fleet.begin(nodes[0]).result(timeout=LONG_S).verdict


def test_nodes_that_have_started_with_something_else_are_waited_for(fleet: Fleet) -> None:
    """While a fleet is upgraded one by one: the others will be started again, and nobody is refused meanwhile."""
    nodes = [fleet.add(driver="590.1"), fleet.add(), fleet.add()]
    for node in nodes[1:]:
        node.state.change(stage="started")
    head = fleet.begin(nodes[0])
    until("ready", nodes[0])
    for node in nodes[1:]:
        node.state.begin_again()
        node.state.change(statement=NodeStatement(node.state.name, {"driver": "590.1"}))
    others = [fleet.begin(node) for node in nodes[1:]]

    assert {"start"} == {future.result(timeout=LONG_S).verdict for future in (head, *others)}
    alone = error(fleet.begin(_other_driver(fleet), SHORT_S))
    assert "fleet-not-together" == alone.code


def _other_driver(fleet: Fleet) -> Node:
    """Start the last node again with another driver than those that have started."""
    node = fleet.nodes[2]
    node.state.begin_again()
    node.state.change(statement=NodeStatement("node2", {"driver": "570.1"}))
    return node
