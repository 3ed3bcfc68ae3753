"""How many bytes of weights does each rank hold?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import loader
import pytest

from kboot.demo import giant
from kboot.plan.memory.model import Model, model_of
from kboot.plan.memory.ranks import Degrees, degrees_of, pipeline_layers, rank_bytes
from kboot.plan.memory.shape import Mla, ModelShape, read_shape
from kboot.plan.memory.tensors import Part, TensorGroup, read_tensors
from kboot.profile.types import LayoutAsk, ParallelAsk
from kboot.sources.headers import local_headers

Specs = Mapping[str, tuple[str, Sequence[int]]]
SMALL = giant.Sizes(
    layers=5, hidden=64, vocabulary=200, heads=8, head_dim=8, query_rank=16, latent=32, rope=8, dense=128,
    expert=128, expert_hidden=128, experts=12, shared=2, vision_layers=2, vision_hidden=16, vision_mlp=32, context=4096,
)  # fmt: skip
"""A model like Kimi K3, small enough to be written whole."""

DEEPSEEK: Specs = {
    "model.embed_tokens.weight": ("BF16", (256, 64)),
    "lm_head.weight": ("BF16", (256, 64)),
    "model.norm.weight": ("BF16", (64,)),
    **{
        f"model.layers.{n}.self_attn.{name}.{leaf}": spec
        for n in (0, 1, 2)
        for name, leaf, spec in (
            ("q_a_proj", "weight", ("F8_E4M3", (32, 64))),
            ("q_a_proj", "weight_scale_inv", ("F32", (8, 16))),
            ("q_b_proj", "weight", ("F8_E4M3", (64, 32))),
            ("q_b_proj", "weight_scale_inv", ("F32", (16, 8))),
            ("o_proj", "weight", ("F8_E4M3", (64, 64))),
            ("o_proj", "weight_scale_inv", ("F32", (16, 16))),
        )
    },
    **{
        f"model.layers.{n}.mlp.experts.{e}.{name}.{leaf}": spec
        for n in (0, 1, 2)
        for e in range(7)
        for name, leaf, spec in (
            ("gate_proj", "weight", ("F8_E4M3", (32, 64))),
            ("gate_proj", "weight_scale_inv", ("F32", (8, 16))),
            ("down_proj", "weight", ("F8_E4M3", (64, 32))),
            ("down_proj", "weight_scale_inv", ("F32", (16, 8))),
        )
    },
    **{f"model.layers.{n}.mlp.shared_experts.up_proj.weight": ("F8_E4M3", (32, 64)) for n in (0, 1, 2)},
}
"""FP8 in blocks of four, as DeepSeek's blocks of 128; layer 2 is there for speculation only."""

LLAMA: Specs = {
    "model.embed_tokens.weight": ("BF16", (100, 32)),
    "lm_head.weight": ("BF16", (100, 32)),
    "model.norm.weight": ("BF16", (32,)),
    **{
        f"model.layers.{n}.{name}.weight": ("BF16", shape)
        for n in range(7)
        for name, shape in (
            ("self_attn.q_proj", (64, 32)),
            ("self_attn.k_proj", (16, 32)),
            ("self_attn.v_proj", (16, 32)),
            ("self_attn.o_proj", (32, 64)),
            ("mlp.gate_proj", (96, 32)),
            ("mlp.up_proj", (96, 32)),
            ("mlp.down_proj", (32, 96)),
            ("input_layernorm", (32,)),
        )
    },
}


def layout(data: int = 1, tensor: int = 1, pipeline: int = 1, *, expert: bool = False, **more: object) -> LayoutAsk:
    """Return a layout with these degrees."""
    parallel = ParallelAsk(data=data, tensor=tensor, pipeline=pipeline, expert=expert)
    return LayoutAsk(name="mine", gpu="B300", gpus_per_node=data * tensor, parallel=parallel, **more)  # type: ignore[arg-type]


def read(files: Sequence[Path], shape: ModelShape) -> Model:
    """Return the model of files by kboot's own reading."""
    return model_of(read_tensors(local_headers([(f.name, f) for f in files])), shape)


def check(files: Sequence[Path], model: Model, asked: LayoutAsk, **about: object) -> None:
    """Compare every rank with what the loader of the tests holds after loading it."""
    parallel, degrees = asked.parallel, degrees_of(asked, model.shape.model_type)
    found = {(r.stage, r.member): r.total_bytes for r in rank_bytes(model, degrees)}
    for stage in range(parallel.pipeline):
        for member in range(parallel.data * parallel.tensor):
            worker = loader.Worker(
                member // parallel.tensor,
                member % parallel.tensor,
                stage,
                parallel.data,
                parallel.tensor,
                parallel.pipeline,
                len(model.layers),
                model.experts,
                parallel.expert,
                **about,  # type: ignore[arg-type]
            )
            assert loader.load(files, worker) == found[stage, member], (asked.parallel, worker)


@pytest.fixture(scope="module")
def kimi(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[Path], Model]:
    """A small Kimi K3 in three files."""
    folder = tmp_path_factory.mktemp("kimi")
    giant.write(folder, 3, SMALL)
    files = sorted(folder.glob("*.safetensors"))
    return files, read(files, read_shape(giant.config(SMALL)))


@pytest.mark.parametrize(
    ("asked", "whole_shared"),
    [
        (layout(), False),
        (layout(data=4, expert=True), False),
        (layout(tensor=4, expert=True), False),
        (layout(tensor=2, pipeline=2, expert=True), False),
        (layout(data=5, expert=True), False),
        (layout(data=2, tensor=2), False),
        (layout(pipeline=3), False),
    ],
    ids=str,
)
def test_a_kimi_is_divided_as_a_loader_divides_it(
    kimi: tuple[list[Path], Model], asked: LayoutAsk, whole_shared: bool
) -> None:
    """Every rank of every layout holds what an independent loader holds after reading the same files."""
    files, model = kimi

    check(files, model, asked, whole_shared=whole_shared)


def test_sequence_parallel_experts_leave_the_shared_ones_whole(kimi: tuple[list[Path], Model]) -> None:
    """vLLM's DP2 x TP2 + EP holds shared experts and Kimi's dense layer whole on each rank, TP4 + EP divides them."""
    _, model = kimi
    both, tensor = (
        rank_bytes(model, degrees_of(layout(d, t, expert=True), "kimi_k3"))[0].parts for d, t in ((2, 2), (1, 4))
    )

    assert (model.stored[Part.SHARED], model.stored[Part.SHARED] // 4) == (both[Part.SHARED], tensor[Part.SHARED])
    assert (model.stored[Part.DENSE], model.stored[Part.DENSE] // 4) == (both[Part.DENSE], tensor[Part.DENSE])
    assert both[Part.EXPERTS] == tensor[Part.EXPERTS] == model.stored[Part.EXPERTS] // 4


def test_kimi_divides_them_where_it_is_told_to() -> None:
    """VLLM_KIMI_K3_SHARD_SP_SHARED_EXPERT with a backend that can: 17 GiB a GPU less at TP4 (vllm#50912)."""
    env = {"VLLM_KIMI_K3_SHARD_SP_SHARED_EXPERT": "1"}
    able = layout(2, 4, expert=True, env=env, args=("--moe-backend", "deep_gemm_mega_moe"))
    unable = layout(2, 4, expert=True, env=env)

    assert (4, 1) == (degrees_of(able, "kimi_k3").shared, degrees_of(unable, "kimi_k3").shared)
    assert 1 == degrees_of(layout(2, 4, expert=True), "deepseek_v3").shared
    assert 4 == degrees_of(layout(1, 4, expert=True), "deepseek_v3").shared
    shared = 92 * 3 * 7168 * 6144 * 2
    assert 16.98 == pytest.approx((shared - shared // 4) / 2**30, abs=0.01)


@pytest.mark.parametrize("degrees", [(1, 1), (7, 1), (4, 1), (1, 4)], ids=str)
def test_fp8_blocks_and_uneven_experts(tmp_path: Path, degrees: tuple[int, int]) -> None:
    """Seven experts on four ranks are 2, 2, 2, 1; scales are cut with their weights; MTP layers stay on disk."""
    loader.write(tmp_path / "a.safetensors", DEEPSEEK)
    model = read([tmp_path / "a.safetensors"], ModelShape(layers=2, experts=7))

    check([tmp_path / "a.safetensors"], model, layout(*degrees, expert=True))
    assert Part.MTP in model.stored


@pytest.mark.parametrize("degrees", [(1, 1), (2, 1), (4, 1), (8, 1), (2, 3), (1, 2)], ids=str)
def test_grouped_heads_are_repeated_where_ranks_outnumber_them(tmp_path: Path, degrees: tuple[int, int]) -> None:
    """Two KV heads on eight ranks: four ranks hold the same head; a vocabulary of 100 is padded to 128."""
    loader.write(tmp_path / "a.safetensors", LLAMA)
    config = {"num_hidden_layers": 7, "num_attention_heads": 8, "num_key_value_heads": 2, "head_dim": 8}
    model = read([tmp_path / "a.safetensors"], read_shape(config))

    check([tmp_path / "a.safetensors"], model, layout(tensor=degrees[0], pipeline=degrees[1]), kv_heads=2)


def test_the_recorded_boot_measured_the_same() -> None:
    """vLLM 0.26.0, DP2 + EP on 2x H200, said `Model loading took 19.1 GiB`: within half a percent."""
    model = model_of(_synthetic(), read_shape(SYNTHETIC))
    ranks = rank_bytes(model, degrees_of(layout(data=2, expert=True)))

    assert 36.46 == pytest.approx(model.stored_bytes / 2**30, abs=0.01)
    assert 2 == len(ranks)
    assert [19.1, 19.1] == [pytest.approx(r.total_bytes / 2**30, abs=0.1) for r in ranks]
    assert 48 * 16 * 256 * 512 * 2 == ranks[0].parts[Part.ABSORBED]


SYNTHETIC = {
    "model_type": "deepseek_v3", "num_hidden_layers": 48, "num_attention_heads": 16, "kv_lora_rank": 512,
    "qk_rope_head_dim": 64, "qk_nope_head_dim": 128, "v_head_dim": 128, "n_routed_experts": 128,
    "max_position_embeddings": 8192, "torch_dtype": "bfloat16",
}  # fmt: skip


def _synthetic() -> tuple[TensorGroup, ...]:
    """The checkpoint of that boot: 37,009 tensors, FP8 in blocks of 128, 128 experts in 47 of 48 layers."""
    hidden, found = 2048, []

    def linear(name: str, rows: int, columns: int, experts: tuple[int, ...] = ()) -> None:
        found.append(TensorGroup(f"{name}.weight", "F8_E4M3", (rows, columns), rows * columns, experts))
        scale = (-(-rows // 128), -(-columns // 128))
        found.append(TensorGroup(f"{name}.weight_scale_inv", "F32", scale, 4 * scale[0] * scale[1], experts))

    def plain(name: str, *shape: int, dtype: str = "BF16") -> None:
        size = {"BF16": 2, "F32": 4}[dtype]
        for length in shape:
            size *= length
        found.append(TensorGroup(name, dtype, shape, size))

    plain("model.embed_tokens.weight", 32000, hidden)
    plain("lm_head.weight", 32000, hidden)
    plain("model.norm.weight", hidden)
    for number in range(48):
        prefix = f"model.layers.{number}."
        plain(f"{prefix}input_layernorm.weight", hidden)
        plain(f"{prefix}post_attention_layernorm.weight", hidden)
        plain(f"{prefix}self_attn.kv_a_layernorm.weight", 512)
        for name, rows, columns in (
            ("q_proj", 16 * 192, hidden),
            ("kv_a_proj_with_mqa", 576, hidden),
            ("kv_b_proj", 16 * 256, 512),
            ("o_proj", hidden, 16 * 128),
        ):
            linear(f"{prefix}self_attn.{name}", rows, columns)
        if number == 0:
            kinds = [(f"{prefix}mlp.", 8192, ())]
        else:
            plain(f"{prefix}mlp.gate.weight", 128, hidden)
            plain(f"{prefix}mlp.gate.e_score_correction_bias", 128, dtype="F32")
            kinds = [(f"{prefix}mlp.experts.*.", 1024, tuple(range(128))), (f"{prefix}mlp.shared_experts.", 1024, ())]
        for base, inner, experts in kinds:
            linear(f"{base}gate_proj", inner, hidden, experts)
            linear(f"{base}up_proj", inner, hidden, experts)
            linear(f"{base}down_proj", hidden, inner, experts)
    assert 37009 == sum(max(1, len(g.experts)) for g in found)
    return tuple(found)


def test_an_f32_checkpoint_is_loaded_as_the_engine_computes() -> None:
    """B072: 32 bytes on disk, 16 in memory where the configuration says bfloat16; F32 among others stays F32."""
    alone = TensorGroup("a", "F32", (2, 4), 32)
    other = TensorGroup("b.weight", "BF16", (2, 4), 16)
    shape = read_shape({"torch_dtype": "bfloat16"})
    one = degrees_of(layout())

    assert (32, 16) == (model_of([alone], shape).stored_bytes, rank_bytes(model_of([alone], shape), one)[0].total_bytes)
    assert 48 == rank_bytes(model_of([alone, other], shape), one)[0].total_bytes


def test_speculation_loads_its_layers_on_the_last_stage() -> None:
    """--speculative-config brings the MTP layer in; its experts are spread as the others are."""
    groups = [TensorGroup(n, d, tuple(s), 2 * s[0] * (s[1] if len(s) > 1 else 1)) for n, (d, s) in LLAMA.items()]
    model = model_of(groups, ModelShape(layers=6))
    plain, asked = (layout(pipeline=2, args=args) for args in ((), ("--speculative-config", '{"method":"mtp"}')))
    without, with_it = (rank_bytes(model, degrees_of(each)) for each in (plain, asked))

    assert [Part.MTP in r.parts for r in without] == [False, False]
    assert [Part.MTP in r.parts for r in with_it] == [False, True]
    assert Part.EMBEDDING in with_it[1].parts  # the drafter reads it too


def test_layers_that_do_not_divide_go_to_middle_stages() -> None:
    """As vLLM's get_pp_indices: the last stage gets no extra layer."""
    assert [23, 23, 24, 23] == pipeline_layers(93, 4)
    assert [2, 3, 3, 2] == pipeline_layers(10, 4)
    assert [47, 46] == pipeline_layers(93, 2)
    assert [5] == pipeline_layers(5, 1)


def test_stacked_experts_of_one_tensor_are_spread_too() -> None:
    """Models that keep all experts of a layer in one tensor: 8 experts on 4 ranks are a quarter each."""
    model = model_of([TensorGroup("model.layers.0.mlp.experts.gate_up_proj", "BF16", (8, 4, 4), 256)], ModelShape())

    assert [64] * 4 == [r.total_bytes for r in rank_bytes(model, degrees_of(layout(data=4, expert=True)))]


def test_sglang_divides_inside_its_tensor_group() -> None:
    """DP attention 8 inside TP 8: the embedding is whole, MLP and head are divided by eight."""
    degrees = degrees_of(layout(8, expert=True, engine="sglang"))

    assert (1, 8, 8, 1, 8) == (degrees.tensor, degrees.dense, degrees.shared, degrees.embedding, degrees.head)
    assert 1 == degrees_of(layout(8, expert=True, engine="sglang", args=("--moe-a2a-backend", "deepep"))).shared


def test_degrees_read_as_operators_write_them() -> None:
    """DP8+EP, TP8 PP4+EP, TP8, one rank."""
    words = [degrees_of(layout(*d, expert=e)).words for d, e in [((8,), True), ((1, 8, 4), True), ((1, 8), False)]]

    assert ["DP8+EP", "TP8 PP4+EP", "TP8", "one rank"] == [*words, degrees_of(layout()).words]


def test_latent_attention_counts_heads_for_the_degrees() -> None:
    """The number a tensor degree must divide comes from the attention."""
    assert 96 == Model(ModelShape(attention=(Mla(576, 96, 1),)), (), (), (), 1, {}).heads
    assert isinstance(degrees_of(layout()), Degrees)
