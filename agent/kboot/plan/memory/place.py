"""What does a GPU hold when a model is laid out in one way, and which ways fit so many GPUs?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from kboot.plan.memory.kv import KvRoom, kv_needs, kv_room, why_unknown
from kboot.plan.memory.ranks import Degrees, RankBytes, degrees_of, rank_bytes
from kboot.plan.memory.reserve import Reserve, reserves_of
from kboot.plan.memory.tensors import Part
from kboot.profile.types import LayoutAsk, ParallelAsk
from kboot.values import dataclass

if TYPE_CHECKING:
    from kboot.plan.memory.model import Model


@dataclass(frozen=True, slots=True)
class Placed:
    """A model laid out. layout: its engine and arguments; without a name where no profile has them. ranks: every one.

    kv: None where the cache cannot be computed, `kv_unknown` says why. memory_bytes: of one GPU. stored: what the
    files have, by purpose.
    """

    layout: LayoutAsk
    degrees: Degrees
    ranks: tuple[RankBytes, ...]
    memory_bytes: int
    reserves: tuple[Reserve, ...]
    kv: KvRoom | None
    kv_unknown: str | None
    stored: Mapping[Part, int]

    @property
    def largest(self) -> RankBytes:
        """The rank that holds most; the first of several."""
        return max(self.ranks, key=lambda rank: rank.total_bytes)

    @property
    def smallest_bytes(self) -> int:
        """What the rank that holds least has."""
        return min(rank.total_bytes for rank in self.ranks)

    @property
    def reserve_bytes(self) -> int:
        """The reserves of one GPU."""
        return sum(reserve.size_bytes for reserve in self.reserves)

    @property
    def room_bytes(self) -> int:
        """What is left for the KV cache on the tightest GPU; negative: short by so much."""
        return self.memory_bytes - self.largest.total_bytes - self.reserve_bytes

    @property
    def kv_bytes(self) -> int:
        """Room for the KV cache over all GPUs."""
        rooms = (self.memory_bytes - rank.total_bytes - self.reserve_bytes for rank in self.ranks)
        return sum(max(0, room) for room in rooms)

    @property
    def fits(self) -> bool:
        """True where every GPU holds its weights and the reserve, with room for one sequence of the length asked."""
        return self.room_bytes > 0 and (self.kv is None or self.kv.serves)


def place(model: Model, layout: LayoutAsk, memory_bytes: int, held_bytes: int = 0) -> Placed:
    """Lay a model out as a layout says, on GPUs of so much memory each. held_bytes: what others hold of it."""
    degrees = degrees_of(layout, model.shape.model_type)
    ranks = rank_bytes(model, degrees)
    reserves = reserves_of(layout, memory_bytes, held_bytes)
    unknown = why_unknown(model.shape)
    kv = None
    if unknown is None:
        kept = sum(reserve.size_bytes for reserve in reserves)
        largest = [max(r.total_bytes for r in ranks if r.stage == stage) for stage in range(degrees.stages)]
        rooms = [memory_bytes - size - kept for size in largest]
        kv = kv_room(rooms, kv_needs(model.shape, degrees, layout.args), model.shape, layout.args)
    return Placed(layout, degrees, ranks, memory_bytes, reserves, kv, unknown, model.stored)


def ways(layout: LayoutAsk, model: Model) -> Iterator[LayoutAsk]:
    """Return the layout with every other division of its GPUs that engines can run.

    Tensor parallelism stays within a node and divides the heads. The pipeline has one stage; or one for each node, of
    all its GPUs.
    """
    gpus = layout.gpus_per_node * layout.nodes
    spread = Part.EXPERTS in model.stored
    for stages in sorted({1, layout.nodes}):
        for tensor in (1, 2, 4, 8, 16, 32, 64):
            divides = layout.gpus_per_node % tensor == 0 and (model.heads == 0 or model.heads % tensor == 0)
            if tensor > layout.gpus_per_node or not divides or gpus % (tensor * stages):
                continue
            data = gpus // (tensor * stages)
            if data > 1 and (stages > 1 or not spread):
                continue  # replicas of a dense model share nothing: that is another number of nodes
            parallel = ParallelAsk(data=data, tensor=tensor, pipeline=stages, expert=spread and data * tensor > 1)
            if parallel != layout.parallel:
                yield replace(layout, parallel=parallel)


def best_way(model: Model, layout: LayoutAsk, memory_bytes: int) -> Placed | None:
    """Return the way to lay the model out on these GPUs that leaves most room; None where there is no other way.

    Most room: the one that fits and serves most sequences of the length asked for, else with most memory left.
    """
    found = [place(model, way, memory_bytes) for way in ways(layout, model)]
    return max(found, key=_worth, default=None)


def _worth(placed: Placed) -> tuple[bool, int, int, int]:
    sequences = 0
    if placed.kv is not None:
        sequences = (placed.kv.sequences or 0) * placed.degrees.data
    return placed.fits, sequences, placed.room_bytes, -placed.degrees.stages
