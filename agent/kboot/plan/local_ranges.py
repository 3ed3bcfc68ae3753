"""Which bytes of each file do the ranks of one node load, when an engine spans several nodes?"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from kboot.plan.memory.ranks import flag_value, pipeline_layers
from kboot.plan.memory.tensors import entries_of
from kboot.values import dataclass

if TYPE_CHECKING:
    from kboot.profile.types import LayoutAsk

Ranges = tuple[tuple[int, int], ...]

_EXPERT = re.compile(rb"\.experts\.(\d+)\.")
_LAYER = re.compile(rb"(?:^|\.)(?:layers|h|blocks)\.(\d+)\.")
_PAGE_BYTES = 64 << 10
_GAP_BYTES = 1 << 20
"""Stretches that are nearer to each other are read as one: a seek costs more."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """What a node's ranks load of a model. experts, layers: None where it is all of them."""

    experts: frozenset[int] | None
    layers: frozenset[int] | None


def loaded_by(layout: LayoutAsk, node_rank: int, experts: int, layers: int) -> Loaded | None:
    """Return what the ranks of a node load; None where that is everything, or not known for this engine and layout.

    vLLM counts ranks by data, then pipeline, then tensor; experts lie over data × tensor ranks in one run each, the
    first ones taking what does not divide. Ranks of a node stand together. Redundant or differently placed experts
    (`--enable-eplb`, round robin) are not in this sum.
    """
    data, tensor, stages = layout.parallel.data, layout.parallel.tensor, layout.parallel.pipeline
    per_node, world = layout.gpus_per_node, data * tensor * stages
    if layout.engine != "vllm" or layout.nodes < 2 or per_node * layout.nodes != world or _moves_experts(layout):
        return None
    ranks = range(node_rank * per_node, (node_rank + 1) * per_node)
    places = {(rank // tensor % stages, rank // (tensor * stages) * tensor + rank % tensor) for rank in ranks}
    mine = _experts(experts, data * tensor, {member for _, member in places}) if layout.parallel.expert else None
    if mine is not None and len(mine) == experts:
        mine = None
    here = _layers(layers, stages, {stage for stage, _ in places}) if stages > 1 else None
    return None if mine is None and here is None else Loaded(mine, here)


def ranges_of(header: bytes, data_bytes: int, loaded: Loaded) -> Ranges:
    """Return the [start, end) stretches of a safetensors file that a node loads, its header included.

    header: its JSON part. Tensors that belong to no expert and no layer are everybody's.

    Raises:
        HeaderNotValid: it is no such header.
    """
    first = 8 + len(header)
    found = [(0, first)]
    for name, _, offsets in entries_of(header):
        if _is_loaded(name, loaded):
            start, _, end = offsets.partition(b",")
            found.append((first + int(start), first + int(end)))
    return _joined(found, first + data_bytes)


def total(ranges: Iterable[tuple[int, int]]) -> int:
    """Return how many bytes the ranges have."""
    return sum(end - start for start, end in ranges)


def saved_bytes(ranges: Mapping[str, Ranges], sizes: Mapping[str, int]) -> int:
    """Return how many bytes of these files a node does not load."""
    return sum(sizes[path] - total(found) for path, found in ranges.items())


def _is_loaded(name: bytes, loaded: Loaded) -> bool:
    if loaded.layers is not None and (layer := _LAYER.search(name)) and int(layer[1]) not in loaded.layers:
        return False
    expert = _EXPERT.search(name) if loaded.experts is not None else None
    return loaded.experts is None or expert is None or int(expert[1]) in loaded.experts


def _experts(experts: int, members: int, mine: Iterable[int]) -> frozenset[int]:
    base, more = divmod(experts, members)
    found: set[int] = set()
    for member in mine:
        first = member * base + min(member, more)
        found.update(range(first, first + base + (member < more)))
    return frozenset(found)


def _layers(layers: int, stages: int, mine: Iterable[int]) -> frozenset[int]:
    """Layers beyond the model's own are for speculation; which rank has them is not known: everybody's."""
    counts = pipeline_layers(layers, stages)
    found = {sum(counts[:stage]) + n for stage in mine for n in range(counts[stage])}
    return frozenset(found | set(range(layers, layers + _MTP_LAYERS)))


_MTP_LAYERS = 16


def _moves_experts(layout: LayoutAsk) -> bool:
    placed = flag_value(layout.args, "--expert-placement-strategy") or "linear"
    return placed != "linear" or any(arg.partition("=")[0] == "--enable-eplb" for arg in layout.args)


def _joined(found: list[tuple[int, int]], size_bytes: int) -> Ranges:
    """Return whole pages, sorted, with near ones as one."""
    joined: list[tuple[int, int]] = []
    for start, end in sorted(found):
        start = start // _PAGE_BYTES * _PAGE_BYTES
        end = min(size_bytes, -(-end // _PAGE_BYTES) * _PAGE_BYTES)
        if joined and start - joined[-1][1] <= _GAP_BYTES:
            joined[-1] = (joined[-1][0], max(joined[-1][1], end))
        elif start < end:
            joined.append((start, end))
    return tuple(joined)
