"""Nodes of a fleet in one process, each with a store, a server and a fetch of its own, over loopback."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from fakes.checkpoints import paths_in
from fakes.fetching import ASK, Fetched, listing_of
from fakes.hub import REPO, FakeHub
from fakes.peer import KEY
from kboot.apply.exchange import Exchange
from kboot.apply.exchange_view import PATIENCE, Patience
from kboot.apply.fetch import fetch_files
from kboot.apply.peer_board import Board
from kboot.apply.peer_server import PeerServer
from kboot.checkpoint import Listing
from kboot.events import Event, FileProgress
from kboot.host.range_server import Part
from kboot.plan.types import FetchFile
from kboot.profile.types import CheckpointAsk, FetchAsk
from kboot.report.types import Outcome
from kboot.sources import open_sources
from kboot.sources.fleet_auth import FleetKey
from kboot.sources.peers import Peer
from kboot.store.store import Store

DEADLINE_S = 90.0


class LyingBoard(Board):
    """Gives every part from another file than the right one."""

    def part(self, blob_id: str, start: int, end: int) -> tuple[Part, int] | None:
        found = super().part(blob_id, start, end)
        if found is None:
            return None
        part, size_bytes = found
        lie = self._store.paths.state / f"lie-{blob_id}"
        if not lie.exists():
            lie.write_bytes(b"\1" * size_bytes)
        return Part((lie,), part.start, part.end), size_bytes


@dataclass
class Node:
    """One node. server: answers from the beginning, as a node's does. lies: every file it gives has a wrong byte."""

    name: str
    folder: Path
    key: FleetKey = KEY
    events: list[Event] = field(default_factory=list)
    stop: threading.Event = field(default_factory=threading.Event)
    outcomes: tuple[Outcome, ...] = ()
    lies: bool = False
    patience: Patience = PATIENCE

    def __post_init__(self) -> None:
        self.store = Store(paths_in(self.folder))
        self.server = PeerServer("127.0.0.1", 0, self.key, {}, self.events.append)
        self._thread: threading.Thread | None = None

    def offer(self, files: Mapping[str, bytes]) -> Board:
        """Say what is here of these files."""
        self.listing: Listing = listing_of(files)
        board = LyingBoard(self.listing, self.store) if self.lies else Board(self.listing, self.store)
        self.server.offer(board)
        return board

    def begin(
        self,
        hub: str,
        files: Mapping[str, bytes],
        others: Sequence[Node],
        ask: FetchAsk = ASK,
        board: Board | None = None,
        mirror: str = "",
    ) -> None:
        """Begin to fetch, in a thread. mirror: asked before the Hub."""
        board = board or self.offer(files)
        peers = {n.name: Peer(n.name, "127.0.0.1", n.server.port, self.key, 10.0) for n in others}
        exchange = Exchange(self.name, peers, board, self.events.append, self.patience)
        self._thread = threading.Thread(target=self._run, args=(hub, ask, exchange, mirror), daemon=True)
        self._thread.start()

    def _run(self, hub: str, ask: FetchAsk, exchange: Exchange, mirror: str) -> None:
        actions = [FetchFile(file, 0, "not on this disk") for file in self.listing.files]
        named = (mirror, "hub") if mirror else ("hub",)
        sources = open_sources(CheckpointAsk(repo=REPO, sources=named), ask, {"HF_ENDPOINT": hub})
        tell = self.events.append
        self.outcomes = fetch_files(actions, self.listing, sources, self.store, ask, tell, self.stop, 2, exchange)

    def has_bytes(self, size_bytes: int) -> bool:
        """Return whether so much has arrived."""
        progress = {e.path: e.done_bytes for e in self.events if isinstance(e, FileProgress)}
        return sum(progress.values()) >= size_bytes

    def end(self) -> Fetched:
        """Wait for the fetch."""
        assert self._thread is not None
        self._thread.join(DEADLINE_S)
        assert not self._thread.is_alive(), f"{self.name} is not done"
        return Fetched(self.outcomes, self.events, self.store, self.listing)


@contextmanager
def fleet(folder: Path, count: int, patience: Patience = PATIENCE) -> Iterator[list[Node]]:
    """Give so many nodes that answer and have not begun."""
    nodes = [Node(f"n{number}", folder / f"n{number}", patience=patience) for number in range(count)]
    try:
        yield nodes
    finally:
        for node in nodes:
            node.stop.set()
            node.server.close()


def fetch_together(nodes: Sequence[Node], hub: str, files: Mapping[str, bytes], ask: FetchAsk = ASK) -> list[Fetched]:
    """Let all nodes fetch and return what became of each."""
    boards = [node.offer(files) for node in nodes]  # before anybody asks: nobody is late
    for node, board in zip(nodes, boards, strict=True):
        node.begin(hub, files, [other for other in nodes if other is not node], ask, board)
    return [node.end() for node in nodes]


def bytes_asked(hub: FakeHub) -> int:
    """Return how many bytes of files the requests to a Hub asked for."""
    found = 0
    for request in hub.requests:
        if "/resolve/" in request.path:
            size = len(hub.files[request.path.split(f"/resolve/{hub.commit}/")[1]])
            wanted = re.fullmatch(r"bytes=(\d+)-(\d*)", request.range)
            first, last = (int(wanted[1]), int(wanted[2] or size - 1)) if wanted else (0, size - 1)
            found += last + 1 - first
    return found
