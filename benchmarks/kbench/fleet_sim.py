"""How long does a fleet of any size take, by which way? A discrete-event simulation, for sizes nobody has to spare.

Nodes have one rate, the lowest of their network, disks and CPUs, cut into slots: a transfer takes one slot of the node
that gives and one of the node that receives, at the lower rate of the two. The checkpoint is cut into pieces. Who has a
free slot looks at a few others for one to pair with, as real nodes do. Left out are the network's topology, loss, and
nodes that come and go.
"""

from __future__ import annotations

import argparse
import heapq
import math
import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from kbench.document import Document, Value

GB = 1e9
REQUEST_BYTES = 64 << 20
FILES = 96
SIZES = (4, 16, 64, 256, 1024)
_TRIES = 24


@dataclass(frozen=True, slots=True)
class World:
    """What is assumed. Rates in bytes a second.

    node: of one node, in each direction. origin: of the Hub towards the whole fleet, or of the site's way out.
    store, store_node: of an object store in the same region, in total and towards one node.
    hash_s_per_gb: CPU time to make a torrent's metainfo, which nobody publishes (measured: 0.6). cores: that make it.
    slow: nodes, the last ones, that have a tenth of the rate.
    """

    size_bytes: float = 1560.94 * GB
    node: float = 5 * GB
    origin: float = 2.5 * GB
    store: float = 200 * GB
    store_node: float = 5 * GB
    slots: int = 16
    request_s: float = 0.002
    hash_s_per_gb: float = 0.6
    cores: int = 16
    slow: int = 0


@dataclass(frozen=True, slots=True)
class Ended:
    """all_s: until every node has everything; fast_s: until all but the slow ones have. origin_copies: what it gave."""

    all_s: float
    origin_copies: float
    fast_s: float


@dataclass(slots=True)
class _Node:
    """have: pieces that are here. gives: those that others may have from it; fresh: those it gave to nobody yet, which
    go first. want: pieces that it lacks and that are not on their way. Each as bits.
    """

    rate: float
    down: int
    up: int
    own: deque[int]
    want: int
    have: int = 0
    gives: int = 0
    fresh: int = 0
    left: int = 0
    from_origin: int = 0
    in_line: bool = False


class Exchange:
    """Nodes that give each other pieces. swarm: any holder gives; else the node that had it from the origin, and every
    node that has the whole file, which is then proven.

    owners: nodes that fetch from the origin. seeded: the first node has everything when it begins.
    """

    def __init__(
        self, world: World, nodes: int, *, swarm: bool, owners: int, seeded: bool = False, seed: int = 1
    ) -> None:
        self.world, self.swarm = world, swarm
        self.random = random.Random(seed)
        self.pieces = max(256, nodes)
        self.piece_bytes = world.size_bytes / self.pieces
        whole = (1 << self.pieces) - 1
        self.file_of = [piece * FILES // self.pieces for piece in range(self.pieces)]
        self.files = [0] * FILES
        for piece, file in enumerate(self.file_of):
            self.files[file] |= 1 << piece
        self.nodes = [
            _Node(
                rate=world.node / (10 if number >= nodes - world.slow else 1),
                down=world.slots,
                up=world.slots,
                own=deque(range(number, self.pieces, owners) if number < owners else ()),
                want=whole,
                left=self.pieces,
            )
            for number in range(nodes)
        ]
        self.origin_slots = max(1, math.ceil(world.origin / (world.node / world.slots)))
        self.origin_rate = world.origin / self.origin_slots
        self.line: deque[int] = deque()  # for the origin
        self.hungry: list[int] = []
        self.now_s, self.fast_s, self.given = 0.0, 0.0, 0
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._order = 0
        if seeded:
            first = self.nodes[0]
            first.left, first.want, first.gives, first.fresh = 0, 0, whole, whole

    def run(self) -> Ended:
        """Return how it ended."""
        for number in range(len(self.nodes)):
            self._fill(number)
        while self._events or self._look_everywhere():
            self.now_s, _, happen = heapq.heappop(self._events)
            happen()
        if any(node.left for node in self.nodes):
            raise RuntimeError("the simulation stood still before every node had everything")
        return Ended(self.now_s, self.given / self.pieces, self.fast_s)

    def _fill(self, number: int) -> None:
        """Give a node's free slots something to do: half of them at most for the origin."""
        node = self.nodes[number]
        while node.down and node.left:
            wants_origin = node.from_origin < max(1, self.world.slots // 2) and self._has_own(number)
            if wants_origin and self.origin_slots:
                self._from_origin(number)
                continue
            if wants_origin and not node.in_line:
                node.in_line = True
                self.line.append(number)
            giver = self._giver(number)
            if giver < 0:
                if number not in self.hungry[-64:]:
                    self.hungry.append(number)
                return
            self._send(giver, number)

    def _has_own(self, number: int) -> bool:
        """Return whether a node has something to have from the origin: its own part, or one of a node that lags."""
        node = self.nodes[number]
        if not node.own and not self.swarm:
            most = max(self.random.sample(self.nodes, min(4, len(self.nodes))), key=lambda other: len(other.own))
            if len(most.own) > 1 and most.rate < node.rate:
                node.own.append(most.own.pop())
        while node.own and not node.want >> node.own[0] & 1:
            node.own.popleft()
        return bool(node.own)

    def _from_origin(self, number: int) -> None:
        node = self.nodes[number]
        piece = node.own.popleft()
        node.want &= ~(1 << piece)
        node.down, node.from_origin, self.origin_slots = node.down - 1, node.from_origin + 1, self.origin_slots - 1
        self.given += 1

        def arrived() -> None:
            node.down, node.from_origin, self.origin_slots = node.down + 1, node.from_origin - 1, self.origin_slots + 1
            node.gives, node.fresh = node.gives | 1 << piece, node.fresh | 1 << piece
            self._has(node, piece)
            while self.line and self.origin_slots:
                following = self.line.popleft()
                self.nodes[following].in_line = False
                self._fill(following)
            self._fill(number)
            self._give(number)

        self._after(self._seconds(min(node.rate / self.world.slots, self.origin_rate)), arrived)

    def _giver(self, number: int) -> int:
        """Return a node with a free slot that has something for this one; -1 where a look at some finds none."""
        want = self.nodes[number].want
        for _ in range(_TRIES):
            giver = self.random.randrange(len(self.nodes))
            if self.nodes[giver].up and self.nodes[giver].gives & want:
                return giver
        return -1

    def _give(self, giver: int) -> None:
        """Use a node's free slots for nodes that look for something."""
        source = self.nodes[giver]
        tries = _TRIES
        while source.up and self.hungry and tries:
            at = self.random.randrange(len(self.hungry))
            number = self.hungry[at]
            node = self.nodes[number]
            if node.down and node.left and source.gives & node.want:
                self._send(giver, number)
                continue
            tries -= 1
            if not node.down or not node.left:
                self.hungry[at] = self.hungry[-1]
                self.hungry.pop()

    def _look_everywhere(self) -> bool:
        """Pair whoever can be; return whether anything goes on."""
        for number, node in enumerate(self.nodes):
            for giver, source in enumerate(self.nodes):
                while node.down and source.up and source.gives & node.want:
                    self._send(giver, number)
        return bool(self._events)

    def _send(self, giver: int, number: int) -> None:
        source, node = self.nodes[giver], self.nodes[number]
        piece = self._any_bit(source.fresh & node.want or source.gives & node.want)
        source.fresh &= ~(1 << piece)
        node.want &= ~(1 << piece)
        source.up, node.down = source.up - 1, node.down - 1

        def arrived() -> None:
            source.up, node.down = source.up + 1, node.down + 1
            before = node.gives
            self._has(node, piece)
            self._fill(number)
            self._give(giver)
            if node.gives != before:
                self._give(number)

        self._after(self._seconds(min(source.rate, node.rate) / self.world.slots), arrived)

    def _has(self, node: _Node, piece: int) -> None:
        node.have, node.left = node.have | 1 << piece, node.left - 1
        file = self.files[self.file_of[piece]]
        if self.swarm:
            node.gives |= 1 << piece
        elif node.have & file == file:
            node.gives |= file
        if not node.left and node.rate == self.world.node:
            self.fast_s = self.now_s

    def _any_bit(self, bits: int) -> int:
        upper = bits >> (shift := self.random.randrange(self.pieces))
        return (upper & -upper).bit_length() - 1 + shift if upper else (bits & -bits).bit_length() - 1

    def _seconds(self, rate: float) -> float:
        """Return how long a piece takes in a slot of that rate."""
        requests = max(1.0, self.piece_bytes / REQUEST_BYTES)
        return self.piece_bytes / rate + requests * self.world.request_s

    def _after(self, seconds: float, happen: Callable[[], None]) -> None:
        self._order += 1
        heapq.heappush(self._events, (self.now_s + seconds, self._order, happen))


def alone(world: World, nodes: int) -> Ended:
    """Every node fetches everything from the origin."""
    one, shared = world.size_bytes / min(world.node, world.origin), nodes * world.size_bytes / world.origin
    slow = 10 * world.size_bytes / world.node if world.slow else 0.0
    return Ended(max(one, shared, slow), float(nodes), max(one, shared))


def store(world: World, nodes: int) -> Ended:
    """Every node fetches everything from an object store nearby, to which somebody brought it before."""
    one, shared = world.size_bytes / min(world.node, world.store_node), nodes * world.size_bytes / world.store
    slow = 10 * world.size_bytes / world.node if world.slow else 0.0
    return Ended(max(one, shared, slow), 0.0, max(one, shared))


def owners(world: World, nodes: int) -> Ended:
    """Each node has its part from the origin and gives it to the others: what kboot does."""
    return Exchange(world, nodes, swarm=False, owners=nodes).run()


def swarm(world: World, nodes: int) -> Ended:
    """A torrent whose metainfo is at hand, with the origin as the web seed of one node."""
    return Exchange(world, nodes, swarm=True, owners=1).run()


def swarm_cold(world: World, nodes: int) -> Ended:
    """A torrent that the first node has to make: it needs every byte before anybody can begin."""
    first_s = world.size_bytes / min(world.node, world.origin)
    hash_s = world.hash_s_per_gb * world.size_bytes / GB / world.cores
    rest = Exchange(world, nodes, swarm=True, owners=0, seeded=True).run()
    return Ended(first_s + hash_s + rest.all_s, 1.0, first_s + hash_s + rest.fast_s)


WAYS: dict[str, Callable[[World, int], Ended]] = {
    "alone": alone,
    "owners": owners,
    "swarm": swarm,
    "swarm_cold": swarm_cold,
    "store": store,
}
MEASURED = World(size_bytes=2.15 * GB, node=0.3 * GB, origin=0.2 * GB, slots=4, cores=1)
"""Four hosts on one machine with two cores, behind an origin of 200 MB/s: owners took 13.3-14.4 s, a torrent 13.1-14.5.
How far the model is from that is how far its other answers may be from the truth."""
_SLOW_UP_TO = 256


def run(asked: argparse.Namespace, work: Path) -> Document:  # noqa: ARG001  (every benchmark's signature)
    """Simulate and return the document; no second of it is measured."""
    figures: dict[str, Value] = {f"as_measured_{way}_s": round(WAYS[way](MEASURED, 4).all_s, 1) for way in _GIVING}
    ratios: dict[str, float] = {}
    one_node_s = World().size_bytes / min(World().node, World().origin)
    for nodes in (size for size in SIZES if size <= asked.most_nodes):
        for name, way in WAYS.items():
            ended = way(World(), nodes)
            figures[f"{name}_{nodes}_s"] = round(ended.all_s, 1)
            ratios[f"{name}_{nodes}_over_one_node"] = ended.all_s / one_node_s
        if nodes <= _SLOW_UP_TO:
            for name in _GIVING:
                slow = WAYS[name](World(slow=max(1, nodes // 16)), nodes)
                figures[f"{name}_{nodes}_beside_slow_s"] = round(slow.fast_s, 1)
    return Document("fleet_sim", ratios, figures)


_GIVING = ("owners", "swarm")
