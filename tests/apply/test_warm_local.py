"""Files of a model with experts: what the ranks of one node of two load."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from pathlib import Path

from fakes import checkpoints as fake
from kboot.apply.warm_local import with_loaded_ranges
from kboot.checkpoint import CheckpointFacts, Listing
from kboot.events import Event, Notice
from kboot.facts.types import MemoryFacts
from kboot.plan.fetch import plan_warm
from kboot.plan.memory.model import model_of
from kboot.plan.memory.shape import read_shape
from kboot.plan.memory.tensors import read_tensors
from kboot.profile.types import LayoutAsk, ParallelAsk, WarmAsk
from kboot.store.store import Store

MIB = 1 << 20
TENSORS = {f"model.layers.0.mlp.experts.{n}.w.weight": 2 * MIB for n in range(8)} | {"model.norm.weight": 4096}
LAYOUT = LayoutAsk(name="pair", gpu="H200", gpus_per_node=1, nodes=2, parallel=ParallelAsk(data=2, expert=True))
MEMORY = MemoryFacts(1 << 40, 1 << 40, None, 0, 0, None, None)


@cache
def contents() -> dict[str, bytes]:
    config = b'{"n_routed_experts": 8, "num_hidden_layers": 1}'
    return {"model.safetensors": fake.shard(TENSORS, 7), "config.json": config}


@cache
def listed() -> Listing:
    return fake.listing(contents())


def checkpoint(folder: Path) -> tuple[Store, CheckpointFacts]:
    store = Store(fake.paths_in(folder))
    fake.fetch_all(store, listed(), contents())
    files = tuple(replace(f, resident_bytes=0) for f in store.local(listed()))
    return store, CheckpointFacts(listed(), files, "/snapshots/c", True)


def shared(folder: Path, layout: LayoutAsk, seen: list[Event], rank: int = 1) -> CheckpointFacts:
    store, facts = checkpoint(folder)
    content = contents()["model.safetensors"]
    length = int.from_bytes(content[:8], "little")
    groups = read_tensors([("model.safetensors", content[8 : 8 + length], len(content) - 8 - length)])
    model = model_of(groups, read_shape(json.loads(contents()["config.json"])))
    return with_loaded_ranges(facts, store, layout, rank, model, seen.append)


def test_a_node_warms_its_own_experts(tmp_path: Path) -> None:
    """Half of the experts and what is everybody's; the rest is said to be for the other node."""
    seen: list[Event] = []
    found = shared(tmp_path, LAYOUT, seen)
    local = {f.file.path: f for f in found.files}["model.safetensors"]

    assert 8 * MIB < local.loaded_bytes < 9 * MIB
    assert local.loaded[0][0] == 0
    assert ["warm.local_share"] == [event.event for event in seen if isinstance(event, Notice)]
    cold = replace(found, files=tuple(replace(f, resident_bytes=0) for f in found.files))
    (action,) = (a for a in plan_warm(cold, WarmAsk(), MEMORY)[0] if a.file.path == "model.safetensors")
    assert (local.loaded, local.loaded_bytes) == (action.ranges, action.size_bytes)


def test_where_every_rank_loads_everything_nothing_changes(tmp_path: Path) -> None:
    """One node, or an engine whose experts are placed in another way."""
    seen: list[Event] = []
    for layout in (replace(LAYOUT, nodes=1, gpus_per_node=2), replace(LAYOUT, args=("--enable-eplb",))):
        assert () == shared(tmp_path, layout, seen).files[-1].loaded
    assert [] == seen
