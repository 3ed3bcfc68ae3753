"""A node of several loads its own experts and layers, and what is everybody's; together the nodes load all."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kboot.plan.local_ranges import Loaded, loaded_by, ranges_of, saved_bytes, total
from kboot.plan.memory.tensors import HeaderNotValid
from kboot.profile.types import LayoutAsk, ParallelAsk

MIB = 1 << 20


def layout(data: int = 1, tensor: int = 1, pipeline: int = 1, nodes: int = 4, **changes: object) -> LayoutAsk:
    parallel = ParallelAsk(data=data, tensor=tensor, pipeline=pipeline, expert=bool(changes.pop("expert", True)))
    per_node = data * tensor * pipeline // nodes
    values = {"name": "n", "gpu": "H200", "gpus_per_node": per_node, "nodes": nodes, "parallel": parallel, **changes}
    return LayoutAsk(**values)  # type: ignore[arg-type]


def header(sizes: dict[str, int]) -> tuple[bytes, int]:
    """Return the header of a file with these tensors, and the size of its data."""
    found, at = {}, 0
    for name, size in sizes.items():
        found[name] = {"dtype": "U8", "shape": [size], "data_offsets": [at, at + size]}
        at += size
    return json.dumps(found, separators=(",", ":")).encode(), at


MODEL = {
    f"model.layers.{layer}.{what}": size * MIB
    for layer in range(4)
    for what, size in {"self_attn.o_proj.weight": 2, **{f"mlp.experts.{e}.up.weight": 4 for e in range(8)}}.items()
} | {"model.embed_tokens.weight": 3 * MIB}


def test_experts_lie_over_all_ranks_in_one_run_each() -> None:
    """EP32 on four nodes of eight: a node's ranks hold a quarter of 896 experts, 28 on each rank."""
    loaded = loaded_by(layout(data=32), 1, experts=896, layers=93)

    assert Loaded(frozenset(range(224, 448)), None) == loaded


def test_experts_that_do_not_divide_go_to_the_first_ranks() -> None:
    """Ten experts on four ranks: three, three, two, two."""
    each_loads = [loaded_by(layout(data=4), node, 10, 1) for node in range(4)]

    assert [{0, 1, 2}, {3, 4, 5}, {6, 7}, {8, 9}] == [loaded.experts for loaded in each_loads if loaded is not None]


def test_a_stage_on_each_node_loads_its_layers() -> None:
    """Tensor 8 × pipeline 4: each node has every expert of a quarter of the layers, and the layers for speculation."""
    loaded = loaded_by(layout(tensor=8, pipeline=4), 3, experts=896, layers=93)

    assert loaded is not None
    assert None is loaded.experts
    assert list(range(70, 93)) == sorted(loaded.layers or ())[:23]
    assert 93 in (loaded.layers or ())


@pytest.mark.parametrize(
    "asked",
    [
        layout(data=8, nodes=1),
        layout(data=32, engine="sglang"),
        layout(data=32, expert=False),
        layout(data=32, args=("--enable-eplb",)),
        layout(data=32, args=("--expert-placement-strategy", "round_robin")),
        layout(tensor=32, expert=False),
        LayoutAsk(name="n", gpu="H200", gpus_per_node=8, nodes=4),
    ],
)
def test_where_it_is_not_known_a_node_loads_everything(asked: LayoutAsk) -> None:
    """Other engines, experts that move, and layouts in which every rank has a part of every tensor."""
    assert None is loaded_by(asked, 1, experts=64, layers=4)


def test_only_what_the_ranks_load_is_in_the_ranges() -> None:
    """Two of eight experts in each layer, attention and embedding: in whole pages, with the header."""
    text, size = header(MODEL)
    ranges = ranges_of(text, size, Loaded(frozenset({2, 3}), None))
    first = 8 + len(text)
    attention = 2 * MIB

    assert 0 == ranges[0][0]
    assert all(start % 65536 == 0 for start, _ in ranges)
    expert_2 = first + attention + 2 * 4 * MIB
    assert any(start <= expert_2 and expert_2 + 8 * MIB <= end for start, end in ranges)
    expert_5 = first + attention + 5 * 4 * MIB
    assert not any(start < expert_5 + 2 * MIB < end for start, end in ranges)
    assert total(ranges) < size // 2
    assert size + first - total(ranges) == saved_bytes({"f": ranges}, {"f": size + first})


def test_what_is_no_header_is_an_error() -> None:
    """Nobody guesses where tensors lie."""
    with pytest.raises(HeaderNotValid):
        ranges_of(b"{nonsense", 100, Loaded(frozenset({1}), None))


@given(
    st.sampled_from(
        [layout(data=4), layout(data=8), layout(tensor=2, pipeline=4), layout(data=2, tensor=2, pipeline=2)]
    ),
    st.integers(4, 12),
)
def test_together_the_nodes_load_every_byte(asked: LayoutAsk, experts: int) -> None:
    """Whatever the layout: a byte that no node would warm does not exist."""
    sizes = {
        f"model.layers.{layer}.mlp.experts.{expert}.w": 70_000 + 7 * expert
        for layer in range(4)
        for expert in range(experts)
    } | {"lm_head.weight": 90_000}
    text, size = header(sizes)
    whole = size + 8 + len(text)
    each_loads = [loaded_by(asked, node, experts, 4) for node in range(4)]
    covered = [each for s in each_loads for each in ([(0, whole)] if s is None else ranges_of(text, size, s))]
    at = 0
    for start, end in sorted(covered):
        assert start <= at
        at = max(at, end)
    assert at == whole
