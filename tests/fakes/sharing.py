"""Nodes of a fleet that fetch what their own ranks load: each with a store, a server and the phases of a boot."""

from __future__ import annotations

import hashlib
import json
import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import pairwise
from pathlib import Path

from fakes.checkpoints import INDEX, framed, paths_in
from fakes.fetching import ASK, listing_of
from fakes.fleet import LyingBoard
from fakes.hub import REPO
from fakes.peer import KEY
from kboot.apply.exchange import Exchange
from kboot.apply.exchange_view import Patience
from kboot.apply.peer_board import Board
from kboot.apply.peer_server import PeerServer
from kboot.apply.run import Ran, Tools, run
from kboot.apply.share_fetch import Sharing
from kboot.apply.share_need import Divided, divide
from kboot.apply.share_publish import Publisher
from kboot.apply.weights import listed_model
from kboot.checkpoint import CheckpointFacts
from kboot.events import Event, FileTrouble, Notice
from kboot.facts.checkpoint import checkpoint_facts
from kboot.facts.fleet_types import FleetNode
from kboot.facts.types import MemoryFacts
from kboot.host.range_server import Part
from kboot.pieces import PIECE_BYTES
from kboot.plan.fetch import plan_bytes
from kboot.plan.group import Group
from kboot.plan.types import FetchFile, FetchShare, Phase
from kboot.profile.types import CheckpointAsk, LayoutAsk, ParallelAsk, Profile, WarmAsk
from kboot.sources import open_sources
from kboot.sources.peers import Peer, pieces_target
from kboot.store.store import Store

MIB = 1 << 20
EXPERTS = 8
DEADLINE_S = 150.0
HASTE = Patience(late_s=0.5, preparing_s=0.5, never_s=2.0)
PATIENCE_S = 120.0  # long: no test waits for it
MEMORY = MemoryFacts(64 << 30, 64 << 30, None, 0, 0, None, None)


@cache
def moe(shards: int = 4) -> dict[str, bytes]:
    """Return a checkpoint with a layer of eight experts in each shard, 1 MiB each, and what every node needs."""
    files, weight_map = {}, {}
    for number in range(shards):
        name = f"model-{number + 1:05d}-of-{shards:05d}.safetensors"
        layer = f"model.layers.{number}"
        sizes = {f"{layer}.mlp.experts.{e}.up.weight": MIB for e in range(EXPERTS)}
        sizes = {f"{layer}.self_attn.o_proj.weight": MIB // 4, **sizes}
        header, at = {}, 0
        for tensor, size in sizes.items():
            header[tensor] = {"dtype": "U8", "shape": [size], "data_offsets": [at, at + size]}
            weight_map[tensor] = name
            at += size
        files[name] = framed(json.dumps(header).encode(), random.Random(number).randbytes(at))
    files[INDEX] = json.dumps({"metadata": {}, "weight_map": weight_map}).encode()
    files["config.json"] = json.dumps({"num_hidden_layers": shards, "n_routed_experts": EXPERTS}).encode()
    return files


def layout(nodes: int, **changes: object) -> LayoutAsk:
    """Return a layout of vLLM with one GPU and one expert rank on each node."""
    asked = {"engine": "vllm", "parallel": ParallelAsk(data=nodes, expert=True), "nodes": nodes, **changes}
    return LayoutAsk(name="wide", gpu="H200", gpus_per_node=1, **asked)  # type: ignore[arg-type]


class HesitantBoard(Board):
    """Gives nothing when it is asked for the first time, or the first few times."""

    refusals = 0

    def part(self, blob_id: str, start: int, end: int) -> tuple[Part, int] | None:
        """Return what is asked for, or None while there are refusals left."""
        if self.refusals and self._entries[blob_id].file.path.endswith(".safetensors"):
            self.refusals -= 1
            return None
        return super().part(blob_id, start, end)


class ContraryPublisher(Publisher):
    """Publishes digests of other bytes than those that are here."""

    def _offer(self, digests):  # type: ignore[no-untyped-def]
        others = replace(digests, digests=digests.digests[::-1])
        self._store.shares.keep_digests(self._listing.repo, others)
        super()._offer(others)


class LyingPublisher(Publisher):
    """Publishes digests of what LyingBoard gives."""

    def _offer(self, digests):  # type: ignore[no-untyped-def]
        ends = [*range(0, digests.size_bytes, PIECE_BYTES), digests.size_bytes]
        lies = b"".join(hashlib.sha256(b"\1" * (end - start)).digest() for start, end in pairwise(ends))
        others = replace(digests, digests=lies)
        self._store.shares.keep_digests(self._listing.repo, others)
        super()._offer(others)


@dataclass
class Node:
    """One node. lies, contrary: it gives wrong bytes, wrong digests; vouches_for_lies: wrong bytes and their digests.

    refusals: so often it gives nothing at first.
    """

    name: str
    rank: int
    folder: Path
    hub: str
    files: dict[str, bytes]
    lies: bool = False
    contrary: bool = False
    vouches_for_lies: bool = False
    refusals: int = 0
    patience_s: float = PATIENCE_S
    events: list[Event] = field(default_factory=list)
    stop: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self.listing = listing_of(self.files)
        self.store = Store(paths_in(self.folder))
        self.pages: dict = {}  # type: ignore[type-arg]
        self.server = PeerServer("127.0.0.1", 0, KEY, self.pages, self.events.append)
        self.model_path = self.store.paths.models / "wide"
        self.publisher: Publisher | None = None

    @property
    def port(self) -> int:
        return self.server.port

    def facts(self) -> CheckpointFacts:
        """Return what this node has, whole files wanted."""
        return checkpoint_facts(self.listing, self.store, "wide")

    def divided(self, names: Sequence[str], **changes: object) -> Divided:
        """Return what it fetches."""
        members = tuple(FleetNode(name, "127.0.0.1", 1) for name in names)
        sources = self._sources()
        model = listed_model(self.listing, self.store, sources)
        group = Group(self.rank, "n0", members)
        asked = layout(len(names), **changes)
        return divide(self.facts(), self.store, sources, asked, group, model)

    def phases(self, checkpoint: CheckpointFacts, mode: str = "ledger") -> tuple[Phase, ...]:
        """Return the phases that a boot has for its bytes."""
        path = str(self.model_path)
        return plan_bytes(checkpoint, mode, WarmAsk(enabled=False), MEMORY, path)  # type: ignore[arg-type]

    def boot(self, others: Sequence[Node], mode: str = "ledger", nodes: int = 0) -> Ran:
        """Plan and run; the other nodes are asked. nodes: of the group, if not all of them."""
        names = sorted([self.name, *(node.name for node in others)])[: nodes or None]
        checkpoint = self.divided(names).checkpoint
        in_part = [f.file.blob_id for f in checkpoint.files if f.share is not None]
        board = self._offer(in_part)
        peers = {node.name: self._peer(node) for node in others}
        publisher = self._publisher(board)
        publisher.publish(f.file for f in checkpoint.files if f.alone)
        sharing = Sharing(peers, publisher, self.patience_s)
        near = {n.name: self._peer(n) for n in others}
        exchange = Exchange(self.name, near, board, self.events.append, HASTE)
        return run(self.phases(checkpoint, mode), self._tools(sharing, exchange))

    def publish_all(self) -> None:
        """Give every shard, and publish its digests; returns when they are."""
        shards = [file for file in self.listing.files if file.path.endswith(".safetensors")]
        self._publisher(self._offer(())).publish(shards)
        targets = [pieces_target(self.listing.repo, self.listing.commit, file.blob_id) for file in shards]
        wait_until(lambda: all(target in self.pages for target in targets))

    def _offer(self, in_part: Sequence[str]) -> Board:
        board = (LyingBoard if self.lies or self.vouches_for_lies else HesitantBoard)(self.listing, self.store, in_part)
        if isinstance(board, HesitantBoard):
            board.refusals = self.refusals
        self.server.offer(board)
        return board

    def _publisher(self, board: Board) -> Publisher:
        if self.publisher is not None:
            self.publisher.end()
        kind = ContraryPublisher if self.contrary else LyingPublisher if self.vouches_for_lies else Publisher
        self.publisher = kind(self.listing, self.store, board, self.name, self.pages, self.events.append)
        return self.publisher

    def boot_whole(self) -> Ran:
        """Fetch every file whole, alone."""
        return run(self.phases(self.facts()), self._tools(None, None))

    def share_of(self, path: str) -> bytes:
        """Return what an engine reads of a file."""
        return (self.model_path / path).read_bytes()

    def said(self, kind: str = "") -> list[str]:
        """Return notices and troubles, "code: text"."""
        notices = [f"{e.event}: {e.text}" for e in self.events if isinstance(e, Notice)]
        troubles = [f"{e.code}: {e.message}" for e in self.events if isinstance(e, FileTrouble)]
        return [text for text in (*notices, *troubles) if text.startswith(kind)]

    def close(self) -> None:
        self.stop.set()
        if self.publisher is not None:
            self.publisher.end()
        self.server.close()

    def _peer(self, node: Node) -> Peer:
        return Peer(node.name, "127.0.0.1", node.port, KEY, 10.0)

    def _sources(self):  # type: ignore[no-untyped-def]
        return open_sources(CheckpointAsk(repo=REPO, sources=("hub",)), ASK, {"HF_ENDPOINT": self.hub})

    def _tools(self, sharing: Sharing | None, exchange: Exchange | None) -> Tools:
        profile = Profile(
            name="wide", schema=1, checkpoint=CheckpointAsk(repo=REPO), layout=(layout(4),), fetch=ASK, digest="d"
        )
        return Tools(
            profile=profile,
            listing=self.listing,
            store=self.store,
            sources=self._sources(),
            cpus=2,
            warm_budget_bytes=0,
            write_handoff=lambda _action: (_ for _ in ()).throw(AssertionError("nothing is handed off")),
            emit=self.events.append,
            stop=self.stop,
            exchange=lambda: exchange,
            sharing=sharing,
        )


@contextmanager
def sharing_nodes(folder: Path, hub: str, files: dict[str, bytes], count: int = 4) -> Iterator[list[Node]]:
    """Give so many nodes that answer and have not begun."""
    nodes = [Node(f"n{rank}", rank, folder / f"n{rank}", hub, files) for rank in range(count)]
    try:
        yield nodes
    finally:
        for node in nodes:
            node.close()


def boot_together(nodes: Sequence[Node], mode: str = "ledger") -> dict[str, Ran]:
    """Let all nodes boot at once; return how each ended."""
    ends: dict[str, Ran] = {}

    def work(node: Node) -> None:
        ends[node.name] = node.boot([other for other in nodes if other is not node], mode)

    threads = [threading.Thread(target=work, args=(node,), daemon=True) for node in nodes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(DEADLINE_S)
    assert set(ends) == {node.name for node in nodes}, "a node did not end"
    return ends


def wait_until(is_so: Callable[[], bool]) -> None:
    """Return when something is so."""
    until_s, pause = time.monotonic() + DEADLINE_S, threading.Event()
    while not is_so():
        assert time.monotonic() < until_s, "it did not become so"
        pause.wait(0.02)


def actions_of(phases: Sequence[Phase]) -> list[str]:
    """Return the fetches of a plan: "whole PATH", "part PATH"."""
    found = []
    for action in (action for phase in phases for action in phase.actions):
        if isinstance(action, FetchFile):
            found.append(f"whole {action.file.path}")
        elif isinstance(action, FetchShare):
            found.append(f"part {action.file.path}")
    return found
