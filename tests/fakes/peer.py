"""Another node of a fleet, that has files and gives them: the real server over a store of its own."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from fakes.checkpoints import fetch_all, paths_in
from fakes.fetching import listing_of
from kboot.apply.peer_board import Board
from kboot.apply.peer_server import PeerServer
from kboot.sources.fleet_auth import FleetKey
from kboot.sources.peers import Peer
from kboot.store.store import Store


def own_address(number: int) -> str:
    """Return a loopback address that no other process of these tests uses, so that any port on it is free."""
    return f"127.{100 + os.getpid() // 250 % 100}.{1 + os.getpid() % 250}.{number}"


KEY = FleetKey(b"the key of a fleet in a test, 32")


@contextmanager
def serving_peer(folder: Path, files: Mapping[str, bytes], stall_timeout_s: float = 30.0) -> Iterator[Peer]:
    """Give a node on loopback that holds all files, proven, as a source."""
    store, listing = Store(paths_in(folder)), listing_of(files)
    fetch_all(store, listing, files)
    server = PeerServer("127.0.0.1", 0, KEY, {}, lambda _event: None)
    server.offer(Board(listing, store))
    try:
        yield Peer("other", "127.0.0.1", server.port, KEY, stall_timeout_s)
    finally:
        server.close()
