"""What a node knows of the others of its fleet, asked of real servers on loopback."""

from __future__ import annotations

import itertools
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random

import pytest

from fakes.checkpoints import fetch_all, paths_in
from fakes.fetching import listing_of
from fakes.peer import KEY, own_address
from kboot.apply.exchange_view import Patience, View
from kboot.apply.peer_board import Board
from kboot.apply.peer_server import PeerServer
from kboot.errors import SourceError
from kboot.events import Event, Notice
from kboot.plan.exchange import Fleet
from kboot.sources.peers import Peer, have_target
from kboot.store.store import Store

MIB = 1 << 20
FILES = {"a.safetensors": Random(1).randbytes(3 * MIB), "b.safetensors": Random(2).randbytes(MIB)}
LISTING = listing_of(FILES)
A, B = LISTING.files
TARGET = have_target(LISTING.repo, LISTING.commit)
DEADLINE_S = 60.0
SOON = Patience(first_s=5.0, late_s=0.0, preparing_s=0.0, never_s=1e9, lost_s=0.0, alone_s=0.0, stalled_s=1e9)


@dataclass
class Watched:
    """Node n0's view of n1 and n2, and what it said."""

    view: View
    servers: dict[str, PeerServer]
    boards: dict[str, Board]
    events: list[Event] = field(default_factory=list)
    limits: dict[str, float] = field(default_factory=dict)
    woken: threading.Event = field(default_factory=threading.Event)

    def until(self, wanted: Callable[[Fleet], bool]) -> Fleet:
        """Return the fleet when it is as wanted."""
        for _ in range(int(DEADLINE_S / 0.05)):
            fleet = self.view.fleet(0)
            if wanted(fleet):
                return fleet
            self.woken.wait(0.05)
            self.woken.clear()
        raise AssertionError(self.view.fleet(0))

    def notices(self) -> list[str]:
        return [e.event for e in self.events if isinstance(e, Notice)]


@contextmanager
def watching(folder: Path, patience: Patience, *absent: str) -> Iterator[Watched]:
    """Two other nodes that have nothing yet; those that are absent do not know the commit."""
    servers, boards = {}, {}
    for number, name in enumerate(("n1", "n2"), 1):
        servers[name] = PeerServer(own_address(number), 0, KEY, {}, lambda _event: None)
        boards[name] = Board(LISTING, Store(paths_in(folder / name)))
        if name not in absent:
            servers[name].offer(boards[name])
    peers = {name: Peer(name, server.address, server.port, KEY, 5.0) for name, server in servers.items()}
    events: list[Event] = []
    view = View("n0", peers, Board(LISTING, Store(paths_in(folder / "n0"))), events.append, patience)
    watched = Watched(view, servers, boards, events)
    view.follow(watched.woken.set, lambda: {"own": 1.0}, watched.limits.__setitem__)
    try:
        yield watched
    finally:
        view.end()
        for server in servers.values():
            server.close()


def names(fleet: Fleet) -> list[str]:
    return [other.name for other in fleet.others]


def test_what_others_have_and_fetch_becomes_known(tmp_path: Path) -> None:
    """By pieces; and that they wait for a source."""
    with watching(tmp_path, SOON) as seen:
        seen.boards["n1"].arrived(A.blob_id, MIB, 2 * MIB)
        seen.boards["n2"].fetching(A.blob_id, 0b100)
        seen.boards["n2"].limited({"hub": 7.0})
        fleet = seen.until(lambda f: any(o.have for o in f.others) and any(o.fetching for o in f.others))

        assert [{A.blob_id: 0b010}, {}] == [other.have for other in fleet.others]
        assert [{}, {A.blob_id: 0b100}] == [other.fetching for other in fleet.others]
        seen.until(lambda _: "hub" in seen.limits)
        assert 7.0 <= seen.limits["hub"] <= 9.0
        assert seen.view.is_known


def test_a_node_that_ends_is_lost_and_one_that_comes_back_is_counted_again(tmp_path: Path) -> None:
    """Both are said once."""
    with watching(tmp_path, SOON) as seen:
        seen.until(lambda f: ["n1", "n2"] == names(f))
        address, port = seen.servers["n1"].address, seen.servers["n1"].port
        seen.servers["n1"].close()
        assert ["n2"] == names(seen.until(lambda f: "n1" in f.lost))
        seen.servers["n1"] = PeerServer(address, port, KEY, {}, lambda _event: None)
        seen.servers["n1"].offer(seen.boards["n1"])
        fleet = seen.until(lambda f: "n1" in names(f))

    assert frozenset() == fleet.lost
    assert ["peer.lost", "peer.back"] == seen.notices()


def test_where_nobody_answers_any_more_this_node_is_cut_off(tmp_path: Path) -> None:
    """It does not take everything upon itself at once."""
    with watching(tmp_path, Patience(lost_s=0.0, alone_s=1e9)) as seen:
        seen.until(lambda f: ["n1", "n2"] == names(f))
        for server in seen.servers.values():
            server.close()
        fleet = seen.until(lambda f: not f.others)

    assert frozenset() == fleet.lost


def test_a_node_that_is_not_there_yet_is_late_and_not_lost(tmp_path: Path) -> None:
    """It answers, and knows nothing of the commit."""
    with watching(tmp_path, SOON, "n2") as seen:
        fleet = seen.until(lambda f: seen.view.is_known and ["n1"] == names(f))

    assert (frozenset({"n2"}), frozenset()) == (fleet.late, fleet.lost)


def test_a_node_that_gave_up_is_not_counted_on_and_still_gives(tmp_path: Path) -> None:
    """What it has is as good as before."""
    with watching(tmp_path, SOON) as seen:
        seen.boards["n1"].gave_up = True
        fleet = seen.until(lambda f: "n1" in f.lost)

    assert "n1" in names(fleet)


def test_who_has_everything_is_not_waited_for(tmp_path: Path) -> None:
    """A process that lingers for the others ends when all are complete."""
    with watching(tmp_path, SOON) as seen:
        seen.until(lambda f: ["n1", "n2"] == names(f))
        assert ("n1", "n2") == seen.view.waits_for()
        store = Store(paths_in(tmp_path / "n1"))
        fetch_all(store, LISTING, FILES)
        seen.servers["n1"].offer(Board(LISTING, store))
        seen.until(lambda f: any(o.have.get(B.blob_id) for o in f.others))

        assert ("n2",) == seen.view.waits_for()


def test_a_node_that_fails_again_and_again_is_dropped(tmp_path: Path) -> None:
    """Five times, and streams that fail together count once."""
    error = SourceError("short-body", "it ended early", retry=True)
    with watching(tmp_path, SOON) as seen:
        seen.until(lambda f: ["n1", "n2"] == names(f))
        for _ in range(20):
            seen.view.failed("n1", A.blob_id, error)
        assert frozenset() == seen.view.dropped()
        seen.view.drop("n1", "it gave wrong bytes")
        seen.view.drop("n1", "it gave wrong bytes")

        assert ["n2"] == names(seen.view.fleet(0))
        assert frozenset({"n1"}) == seen.view.fleet(0).lost
    assert ["peer.dropped"] == seen.notices()


@pytest.mark.parametrize(
    ("key", "value"), [("moved_bytes", 1e999), ("moved_bytes", []), ("limited_s", {"hub": 10**400}), ("have", [1])]
)
def test_a_node_that_says_nonsense_is_told_and_asked_again(tmp_path: Path, key: str, value: object) -> None:
    """It is late, as one that says nothing; when it comes to its senses it is counted on."""
    with watching(tmp_path, SOON, "n1") as seen:
        document = seen.boards["n1"].document()
        pages: dict[str, Callable[[], bytes]] = {TARGET: lambda: json.dumps({**document, key: value}).encode()}
        port = seen.servers["n1"].port
        seen.servers["n1"].close()
        seen.servers["n1"] = PeerServer(own_address(1), port, KEY, pages, lambda _event: None)
        seen.until(lambda _fleet: "peer.lost" in seen.notices())
        pages[TARGET] = lambda: json.dumps(document).encode()

        assert ["n1", "n2"] == names(seen.until(lambda fleet: len(fleet.others) == 2))


def test_a_node_that_only_says_that_it_gets_on_is_done_without(tmp_path: Path) -> None:
    """All that it has to show is a number that grows: after a while its part is for the others."""
    with watching(tmp_path, replace(SOON, claimed_s=0.5)) as seen:
        received = itertools.count(1)
        seen.boards["n1"].moved_bytes = lambda: next(received) << 20
        seen.boards["n2"].proven(A.blob_id)
        seen.boards["n2"].proven(B.blob_id)

        assert frozenset({"n1"}) == seen.until(lambda f: "n1" in f.lost and len(f.others) == 2).lost


def test_nodes_that_come_and_go_are_those_that_the_list_has(tmp_path: Path) -> None:
    """The name has n3 from now on, and n2 no more: its part is for those who are there."""
    servers = [PeerServer(own_address(number), 0, KEY, {}, lambda _event: None) for number in (1, 2, 3)]
    peers = {f"n{n}": Peer(f"n{n}", s.address, s.port, KEY, 5.0) for n, s in enumerate(servers, 1)}
    boards = [Board(LISTING, Store(paths_in(tmp_path / f"n{number}"))) for number in range(4)]
    for server, board in zip(servers, boards[1:], strict=True):
        server.offer(board)
    boards[3].arrived(A.blob_id, 0, MIB)
    events: list[Event] = []
    first = {name: peers[name] for name in ("n1", "n2")}
    watched = Watched(View("n0", first, boards[0], events.append, SOON), {}, {}, events)
    listed = {name: peers[name] for name in ("n1", "n3")}
    watched.view.busy("n2", 1)
    watched.view.follow(watched.woken.set, dict, watched.limits.__setitem__, lambda: listed, 0.05)
    try:
        watched.until(lambda _fleet: {"fleet.came", "fleet.left"} <= set(watched.notices()))
        fleet = watched.until(lambda f: len(f.others) == 2 and any(other.have for other in f.others))
        watched.view.busy("n2", -1)  # what was on its way from it when it left

        assert ["n1", "n3"] == names(fleet)
        assert {"n1": {}, "n3": {A.blob_id: 0b1}} == {other.name: other.have for other in fleet.others}
        assert ("n0", "n1", "n3") == fleet.names
    finally:
        watched.view.end()
        for server in servers:
            server.close()


@pytest.mark.parametrize("more", [1, 2])
def test_streams_are_counted(tmp_path: Path, more: int) -> None:
    """Of each node, and of all."""
    with watching(tmp_path, SOON) as seen:
        seen.until(lambda f: ["n1", "n2"] == names(f))
        seen.view.busy("n2", more)
        fleet = seen.view.fleet(3)

    assert ([0, more], 3, more) == ([o.busy for o in fleet.others], fleet.from_origin, fleet.from_others)
