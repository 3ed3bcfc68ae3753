"""How much KV cache does a token take, and what context is there room for?"""

from __future__ import annotations

from collections import Counter

import pytest

from kboot.demo import giant
from kboot.plan.memory.kv import KvNeed, kv_needs, kv_room, why_unknown
from kboot.plan.memory.ranks import degrees_of
from kboot.plan.memory.shape import Compressed, Gqa, Kda, Mla, ModelShape, NoCache, Recurrent, Unknown, read_shape
from kboot.profile.types import LayoutAsk, ParallelAsk

GIB = 2**30
KIMI = read_shape(giant.config(giant.Sizes()))


def need(shape: ModelShape, *, tensor: int = 1, pipeline: int = 1, args: tuple[str, ...] = ()) -> tuple[KvNeed, ...]:
    """Return what a rank of each stage keeps."""
    asked = LayoutAsk(name="mine", gpu="B300", gpus_per_node=8, parallel=ParallelAsk(tensor=tensor, pipeline=pipeline))
    return kv_needs(shape, degrees_of(asked), args)


def test_the_recorded_boot_had_the_same_tokens() -> None:
    """vLLM 0.26.0 said `Available KV cache memory: 88.37 GiB` and `GPU KV cache size: 1,716,032 tokens`."""
    shape = ModelShape(attention=(Mla(576, 16, 1),) * 48, max_context_tokens=8192)
    room = kv_room([int(88.37 * GIB)], need(shape), shape)

    assert 48 * 576 * 2 == room.need.token_bytes
    assert 1_716_032 == pytest.approx(room.tokens, abs=200)  # blocks of 64, and a size printed in hundredths
    assert (8192, room.tokens // 8192) == (room.context_tokens, room.sequences)


def test_kimi_keeps_latents_in_24_layers_and_states_in_69() -> None:
    """1,152 B a token and layer on every tensor rank; a state of 96 heads x 128 x 128 in float32 that TP divides."""
    state = 69 * (96 * 128 * 128 * 4 + 3 * 3 * 96 * 128 * 2)

    assert (KvNeed(24 * 1152, state),) == need(KIMI)
    assert (KvNeed(24 * 1152, state // 8),) == need(KIMI, tensor=8)


def test_a_pipeline_divides_the_layers() -> None:
    """The tightest stage decides: half of the layers keep about half of the cache."""
    first, last = need(KIMI, pipeline=2)
    room = kv_room([100 * GIB, 100 * GIB], [first, last], KIMI)

    assert 24 * 1152 == first.token_bytes + last.token_bytes
    assert room.tokens == (100 * GIB - last.sequence_bytes) // last.token_bytes


def test_flags_change_what_a_token_takes() -> None:
    """FP8 halves it, decode context parallelism divides it; --max-model-len is the length that is asked for."""
    args = ("--kv-cache-dtype", "fp8", "-dcp", "4", "--max-model-len", "128K")

    assert 24 * 576 // 4 == need(KIMI, tensor=8, args=args)[0].token_bytes
    assert 131_072 == kv_room([GIB], need(KIMI), KIMI, args).asked_tokens
    assert 131_000 == kv_room([GIB], need(KIMI), KIMI, ("--max-model-len=131k",)).asked_tokens
    assert 1_048_576 == kv_room([GIB], need(KIMI), KIMI, ("--max-model-len", "auto")).asked_tokens


def test_grouped_heads_and_windows() -> None:
    """Eight KV heads of 128 on 16 ranks are one head each; layers with a window keep no more than that."""
    shape = ModelShape(attention=(Gqa(8, 128), Gqa(8, 128, 1024)))

    assert (KvNeed(2 * 8 * 128 * 2, 1024 * 2 * 8 * 128 * 2),) == need(shape)
    assert 2 * 128 * 2 == need(shape, tensor=16)[0].token_bytes


def test_states_are_those_of_vllm() -> None:
    """NemotronH's Mamba-2 and Qwen3-Next's gated delta net: heads, and the last inputs of a convolution, by TP rank."""
    mamba, delta = Recurrent(64, 64 * 128, 64 * 64 + 2 * 8 * 128, 4), Recurrent(32, 128 * 128, 8192, 4)
    shape = ModelShape(attention=(mamba, delta, NoCache(), Gqa(2, 128)))
    states = (64 * 64 * 128 + 32 * 128 * 128) * 4 + 3 * (6144 + 8192) * 2

    assert (KvNeed(2 * 2 * 128 * 2, states),) == need(shape)
    assert (KvNeed(2 * 128 * 2, states // 8),) == need(shape, tensor=8)
    assert "1 layers without a cache" in kv_room([GIB], need(shape), shape).why


def test_a_layer_may_keep_keys_and_a_state() -> None:
    """Falcon-H1-7B: a token takes what attention takes, a sequence what the states beside it take."""
    shape = ModelShape(attention=(Gqa(2, 128, beside=Recurrent(24, 128 * 256, 3584, 4)),) * 44)

    assert (KvNeed(44 * 2 * 2 * 128 * 2, 44 * (24 * 128 * 256 * 4 + 3 * 3584 * 2)),) == need(shape)
    assert "44 layers 2 KV heads of 128 beside a state 24 x 32768" == kv_room([GIB], need(shape), shape).why


def test_a_room_too_small_for_one_sequence_serves_nothing() -> None:
    """vLLM refuses to start where one sequence of --max-model-len has no room."""
    (each,) = need(KIMI)
    enough = each.sequence_bytes + 1_048_576 * each.token_bytes

    assert [True, False] == [kv_room([room], [each], KIMI).serves for room in (enough, enough - 1)]
    assert 0 == kv_room([-1], [each], KIMI).tokens
    assert [1, 0] == [kv_room([room], [each], KIMI).sequences for room in (enough, enough - 1)]


def test_shapes_are_read_from_configurations() -> None:
    """Kimi's wrapper, DeepSeek's indexer, grouped heads, sliding windows, and what cannot be computed."""
    assert [(93, 896), 24, 69] == [
        (KIMI.layers, KIMI.experts),
        sum(isinstance(a, Mla) for a in KIMI.attention),
        sum(isinstance(a, Kda) for a in KIMI.attention),
    ]
    deepseek = {"num_hidden_layers": 1, "num_attention_heads": 128, "kv_lora_rank": 512, "qk_rope_head_dim": 64}
    assert (Mla(576, 128, 0, 132),) == read_shape({**deepseek, "index_head_dim": 128}).attention
    llama = {"num_hidden_layers": 2, "num_attention_heads": 32, "num_key_value_heads": 8, "hidden_size": 4096}
    assert (Gqa(8, 128),) * 2 == read_shape(llama).attention
    assert (Gqa(8, 128, 4096),) * 2 == read_shape({**llama, "sliding_window": 4096, "model_type": "mistral"}).attention
    kinds = {**llama, "layer_types": ["full_attention", "sliding_attention"], "sliding_window": 64}
    assert (Gqa(8, 128), Gqa(8, 128, 64)) == read_shape(kinds).attention
    assert why_unknown(read_shape({**deepseek, "compress_ratios": [4]})) is not None
    assert why_unknown(read_shape({**V4, "kv_source_layer_ids": [2, 8]})) is not None
    assert why_unknown(read_shape({**V4, "compress_ratios": [0, 0, 16]})) is not None
    hybrid = read_shape({**llama, "layer_types": ["linear_attention", "full_attention"]})
    assert [Unknown, Gqa] == [type(a) for a in hybrid.attention]
    assert "config.json is not known" == why_unknown(ModelShape())
    assert why_unknown(KIMI) is None


V4 = {
    "num_hidden_layers": 43,
    "num_attention_heads": 64,
    "num_key_value_heads": 1,
    "head_dim": 512,
    "qk_rope_head_dim": 64,
    "index_head_dim": 128,
    "sliding_window": 128,
    "max_position_embeddings": 1048576,
    "compress_ratios": [0, 0, *[4, 128] * 20, 4, 0],
}
"""DeepSeek-V4-Flash: 2 layers with a window alone, 21 over 4 tokens, 20 over 128; the last number is of a layer for
speculation."""


def test_deepseek_v4_keeps_a_vector_for_4_and_for_128_tokens() -> None:
    """584 bytes a vector, 132 of the indexer's keys, and states in float32: as vLLM's cache specifications add up."""
    shape = read_shape(V4)
    window, states_4, states_128 = 128 * 584, 8 * 8192 + 8 * 2048, 128 * 4096

    assert {0: 2, 4: 21, 128: 20} == Counter(a.ratio for a in shape.attention if isinstance(a, Compressed))
    assert 21 * (584 + 132) // 4 + 20 * 5 == need(shape, tensor=8)[0].token_bytes
    assert 43 * window + 21 * states_4 + 20 * states_128 == need(shape, tensor=8)[0].sequence_bytes
    assert 21 * (1024 + 132) // 4 + 20 * 8 == need(shape, args=("--kv-cache-dtype", "bfloat16"))[0].token_bytes
    assert "21 layers latent 512 for each 4 tokens with an indexer" in kv_room([GIB], need(shape), shape).why


def test_transformers_names_the_same_layers_by_kind() -> None:
    """Rates by kind of layer instead of a number for each."""
    kinds = ["sliding_attention", "compressed_sparse_attention", "heavily_compressed_attention"]
    rates = {"compressed_sparse_attention": 4, "heavily_compressed_attention": 128}
    named = {**{k: v for k, v in V4.items() if k != "compress_ratios"}, "layer_types": kinds, "compress_rates": rates}

    listed = read_shape({**V4, "num_hidden_layers": 3, "compress_ratios": [0, 4, 128]})
    assert listed.attention == read_shape({**named, "num_hidden_layers": 3}).attention


def test_float32_checkpoints_are_computed_in_bfloat16() -> None:
    """As engines do by default."""
    assert ["bfloat16", "float16", None] == [
        read_shape(c).dtype for c in ({"torch_dtype": "float32"}, {"dtype": "torch.float16"}, {})
    ]
