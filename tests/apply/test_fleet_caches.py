"""A node that is replaced gets the kernel caches of its rank from a neighbour, proven, before it starts."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from fakes.caches import FACTORS, KEY, cache_files, content, make_cache
from kboot.apply.fleet_caches import CACHES_TARGET, CacheKeeper, Place
from kboot.apply.peer_server import PeerServer
from kboot.engines.types import CacheKey
from kboot.events import Event, Notice
from kboot.sources.fleet_auth import FleetKey
from kboot.sources.peers import Peer

FLEET_KEY = FleetKey(b"k" * 32)


@dataclass
class Node:
    """One node with a cache folder, a server and a keeper."""

    folder: Path
    rank: int
    factors: dict[str, str] = field(default_factory=lambda: dict(FACTORS))

    def __post_init__(self) -> None:
        self.told: list[Event] = []
        self.files: dict[str, Callable[[], Path | None]] = {}
        self.pages: dict[str, Callable[[], bytes]] = {}
        self.server = PeerServer("127.0.0.1", 0, FLEET_KEY, self.pages, self.told.append, files=self.files)

    @property
    def cache(self) -> Path:
        return self.folder / "cache"

    def meets(self, nodes: list[Node]) -> None:
        """Know the other nodes."""
        place = Place(CacheKey(KEY, self.factors), self.rank, 3, self.cache / KEY, self.folder / "fleet-caches")
        peers = {
            node.rank: Peer(f"node{node.rank}", "127.0.0.1", node.server.port, FLEET_KEY, 30.0)
            for node in nodes
            if node is not self
        }
        self.keeper = CacheKeeper(place, peers, self.files, self.told.append)
        self.pages[CACHES_TARGET] = self.keeper.page

    def archives(self) -> list[str]:
        return sorted(json.loads(self.keeper.page())["archives"])

    def notices(self) -> dict[str, str]:
        return {event.event: event.text for event in self.told if isinstance(event, Notice)}


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[list[Node]]:
    """Three nodes, the first two with caches of their own."""
    nodes = [Node(tmp_path / f"n{rank}", rank) for rank in range(3)]
    for node in nodes:
        node.meets(nodes)
    for node in nodes[:2]:
        files = cache_files() | {f"flashinfer/rank_tp{node.rank}_x.json": b"{}"}
        make_cache(node.cache, files=files)
    yield nodes
    for node in nodes:
        node.server.close()


def archive(rank: int) -> str:
    return f"{KEY}.{rank}-of-3.tar.zst"


def test_each_node_archives_its_own_and_its_neighbours_keep_it(fleet: list[Node]) -> None:
    """A node whose engine was never ready has nothing to give; the others have two copies each."""
    for node in (*fleet, *fleet):
        node.keeper.look()

    assert [[archive(0), archive(1)]] * 3 == [node.archives() for node in fleet]


def test_a_replaced_node_has_the_caches_of_its_rank(fleet: list[Node], tmp_path: Path) -> None:
    """From a neighbour, since the machine that made them is gone; complete, as they were."""
    for node in (*fleet, *fleet):
        node.keeper.look()
    fleet[0].server.close()
    new = Node(tmp_path / "new", 0)
    new.meets(fleet)
    found = new.keeper.restore(threading.Event())
    new.server.close()

    assert found is not None
    assert content(fleet[0].cache / KEY).keys() == content(new.cache / KEY).keys()
    assert (new.cache / KEY / "complete").exists()
    assert "flashinfer/rank_tp0_x.json" in content(new.cache / KEY)
    assert "of rank 0" in new.notices()["fleet.cache_restored"]
    assert None is new.keeper.restore(threading.Event()), "what is complete is left"


def test_a_wiped_cache_comes_from_the_nodes_own_archive(fleet: list[Node]) -> None:
    """Nobody is asked for what this disk has."""
    fleet[1].keeper.look()
    (fleet[1].cache / KEY).rename(fleet[1].folder / "gone")
    for node in fleet:
        node.server.close()
    found = fleet[1].keeper.restore(threading.Event())

    assert found is not None
    assert "came from this disk" in fleet[1].notices()["fleet.cache_restored"]


def test_bytes_that_were_not_signed_are_not_taken(fleet: list[Node], tmp_path: Path) -> None:
    """An archive that changed on its way, or on the disk of whoever keeps it, never reaches a cache."""
    fleet[0].keeper.look()
    path = fleet[0].folder / "fleet-caches" / archive(0)
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    new = Node(tmp_path / "new", 0)
    new.meets(fleet)
    found = new.keeper.restore(threading.Event())
    new.server.close()

    assert None is found
    assert not (new.cache / KEY).exists()
    assert not list((new.folder / "fleet-caches").glob("*"))
    assert "peer-archive-wrong" in new.notices()["fleet.caches_not_kept"]


def test_caches_of_another_driver_are_left_alone(fleet: list[Node], tmp_path: Path) -> None:
    """The archive says what it was made with; the engine then compiles as it would alone."""
    fleet[0].keeper.look()
    new = Node(tmp_path / "new", 0, {**FACTORS, "driver": "590.1"})
    new.meets(fleet)

    assert None is new.keeper.restore(threading.Event())
    new.server.close()
    assert "driver" in new.notices()["fleet.caches_not_kept"]


def test_archives_of_other_keys_go(fleet: list[Node]) -> None:
    """What was served before an upgrade is not kept for ever."""
    folder = fleet[0].folder / "fleet-caches"
    folder.mkdir()
    (folder / "older-key.0-of-3.tar.zst").write_bytes(b"x")
    fleet[0].keeper.look()

    assert [archive(0)] == sorted(path.name for path in folder.iterdir())


def test_an_archive_is_made_again_when_the_engine_was_ready_again(fleet: list[Node]) -> None:
    """Its neighbours then take the new one."""
    for node in (fleet[0], fleet[1]):
        node.keeper.look()
    before = json.loads(fleet[1].keeper.page())["archives"][archive(0)]["sha256"]
    (fleet[0].cache / KEY / "flashinfer" / "new.json").write_text("{}")
    (fleet[0].cache / KEY / "complete").write_text("1796029999.000\n")
    for node in (fleet[0], fleet[1]):
        node.keeper.look()

    assert before != json.loads(fleet[1].keeper.page())["archives"][archive(0)]["sha256"]


def test_the_keeper_works_by_itself(fleet: list[Node]) -> None:
    """In a thread, until it is ended."""
    fleet[0].keeper.begin()
    for _ in range(6000):
        if fleet[0].archives():
            break
        threading.Event().wait(0.01)
    fleet[0].keeper.end()

    assert [archive(0)] == fleet[0].archives()
