"""What a node fetches of files with experts: all that its ranks read, and together all of every file."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kboot.pieces import PIECE_BYTES, bytes_of, runs_of
from kboot.plan.memory.tensors import HeaderNotValid
from kboot.plan.shares import holders, is_divided, local_experts, needed_pieces, why_whole
from kboot.profile.types import LayoutAsk, ParallelAsk

MIB = 1 << 20


def layout(*args: str, nodes: int = 4, engine: str = "vllm", expert: bool = True) -> LayoutAsk:
    parallel = ParallelAsk(data=8 * nodes, expert=expert)
    changed = {"engine": engine, "parallel": parallel, "args": args, "nodes": nodes}
    return LayoutAsk(name="wide", gpu="H200", gpus_per_node=8, **changed)  # type: ignore[arg-type]


def header(sizes: dict[str, int]) -> tuple[bytes, int]:
    found, at = {}, 0
    for name, size in sizes.items():
        found[name] = {"dtype": "U8", "shape": [size], "data_offsets": [at, at + size]}
        at += size
    return json.dumps(found, separators=(",", ":")).encode(), at


def expert(number: int, part: str = "up.weight_packed") -> str:
    return f"model.layers.1.mlp.experts.{number}.{part}"


def test_the_experts_of_a_node_are_those_of_its_ranks() -> None:
    """Expert parallel over 32 ranks of four nodes: the second node has the second quarter."""
    assert frozenset(range(224, 448)) == local_experts(layout(), 1, 4, 896, 93)


@pytest.mark.parametrize(
    ("asked", "nodes", "said"),
    [
        (layout(engine="sglang"), 4, "only vLLM"),
        (layout(nodes=1), 1, "those of one node"),
        (layout(), 0, "those of one node"),
        (layout(expert=False), 4, "does not spread experts"),
        (layout("--load-format", "fastsafetensors"), 4, "--load-format fastsafetensors"),
        (layout("--load_format=runai_streamer"), 4, "--load-format runai_streamer"),
        (layout("--safetensors-load-strategy=eager"), 4, "--safetensors-load-strategy eager"),
        (layout("--model-loader-extra-config", "{}"), 4, "--model-loader-extra-config"),
        (layout("--no-enable-ep-weight-filter"), 4, "--no-enable-ep-weight-filter"),
        (layout("--config", "more.yaml"), 4, "--config"),
        (layout("--enable-eplb"), 4, "not known for layout wide"),
        (layout("--expert-placement-strategy", "round_robin"), 4, "not known for layout wide"),
    ],
)
def test_where_an_engine_may_read_more_a_sentence_says_why(asked: LayoutAsk, nodes: int, said: str) -> None:
    """Such a node fetches whole files: it must never read a hole."""
    answer = local_experts(asked, 0, nodes, 896, 93)

    assert isinstance(answer, str)
    assert said in answer


def test_a_reason_that_is_not_the_models_needs_no_model() -> None:
    """Where no header was read, the reason is still the layout's; that a model has no experts a header says."""
    assert "only vLLM" in why_whole(layout(engine="command"), 4)
    assert "" == why_whole(layout(), 4)
    assert "the model has no experts" == local_experts(layout(), 0, 4, 0, 93)


def test_flags_that_change_nothing_are_no_reason() -> None:
    """The loader that is the default may be named."""
    args = ("--load-format", "safetensors", "--safetensors-load-strategy=lazy", "--max-num-seqs", "8")

    assert frozenset(range(224)) == local_experts(layout(*args), 0, 4, 896, 93)


def test_only_weights_of_other_experts_are_left_out() -> None:
    """The engine's filter reads the scales of every expert, and everything that is no expert's."""
    text, size = header(
        {
            "model.layers.1.self_attn.o_proj.weight": 2 * MIB,
            expert(0): 8 * MIB,
            expert(1): 8 * MIB,
            expert(1, "up.weight_scale"): 2 * MIB,
            "model.layers.1.mlp.shared_experts.up.weight": 2 * MIB,
        }
    )
    runs = runs_of(needed_pieces(text, size, frozenset({0})), 8 + len(text) + size)

    assert ((0, 10 * MIB + PIECE_BYTES), (18 * MIB, 8 + len(text) + size)) == runs


def test_a_file_without_experts_is_not_divided() -> None:
    """It is fetched by all nodes together, as ever."""
    assert not is_divided(header({"model.embed_tokens.weight": MIB, "a.shared_experts.up.weight": 1})[0])
    assert is_divided(header({expert(3): MIB})[0])


def test_a_header_that_is_none_is_refused() -> None:
    """Nothing is guessed from it."""
    with pytest.raises(HeaderNotValid):
        needed_pieces(b"not json", 10, frozenset())


SIZES = st.dictionaries(
    st.one_of(
        st.builds(expert, st.integers(0, 7), st.sampled_from(["up.weight", "up.weight_packed", "up.weight_scale"])),
        st.sampled_from(["model.norm.weight", "lm_head.weight", "model.layers.1.mlp.gate.weight"]),
    ),
    st.integers(0, 3 * MIB),
    min_size=1,
)


@settings(deadline=None)
@given(SIZES)
def test_nodes_have_what_their_ranks_read_and_together_everything(sizes: dict[str, int]) -> None:
    """Whatever a file has: the header, all but other experts' weights, and every byte on some node."""
    text, data_bytes = header(sizes)
    first, size = 8 + len(text), 8 + len(text) + data_bytes
    nodes = [frozenset({2 * n, 2 * n + 1}) for n in range(4)]
    all_pieces = 0
    for mine in nodes:
        pieces = needed_pieces(text, data_bytes, mine)
        runs, at = runs_of(pieces, size), first
        all_pieces |= pieces
        assert runs[0][0] == 0
        assert runs[0][1] >= first
        for name, length in sizes.items():
            number = name.partition(".experts.")[2].partition(".")[0]
            left_out = bool(number) and int(number) not in mine and name.endswith((".weight", ".weight_packed"))
            if length and not left_out:
                assert any(a <= at and at + length <= b for a, b in runs), name
            at += length
    assert size == bytes_of(all_pieces, size)


def test_each_node_holds_about_as_many_bytes() -> None:
    """Largest first, each to whom has the least; files of one size in the order of their names."""
    found = holders({"a": 5, "b": 4, "c": 3, "d": 3}, ["y", "x"])

    assert {"a": "x", "b": "y", "c": "y", "d": "x"} == found


@settings(deadline=None)
@given(st.dictionaries(st.text("abcdef", min_size=1), st.integers(1, 10**12)), st.permutations(["x", "y", "z"]))
def test_every_file_has_one_holder_whoever_asks(files: dict[str, int], names: list[str]) -> None:
    """All nodes give the same answer, in whatever order they know each other."""
    found = holders(files, names)

    assert holders(files, ["x", "y", "z"]) == found
    assert set(files) == set(found)
    loads = [sum(size for blob, size in files.items() if found[blob] == name) for name in names]
    assert max(loads) - min(loads) <= max(files.values(), default=0)
