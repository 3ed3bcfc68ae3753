"""Configurations whose layers are not all alike, as public reports and models have them."""

from __future__ import annotations

from typing import Any

import pytest

from kboot.plan.memory.kinds import layer_kinds
from kboot.plan.memory.kv import why_unknown
from kboot.plan.memory.model import model_of
from kboot.plan.memory.shape import Gqa, NoCache, Recurrent, Unknown, read_shape

BASE: dict[str, Any] = {
    "num_hidden_layers": 4,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "hidden_size": 4096,
    "max_position_embeddings": 32768,
}
FULL, WINDOW = Gqa(8, 128), Gqa(8, 128, 1024)
SLIDES = {**BASE, "sliding_window": 1024}
NEMOTRON = {"mamba_num_heads": 64, "mamba_head_dim": 64, "n_groups": 8, "ssm_state_size": 128, "conv_kernel": 4}
MAMBA = Recurrent(64, 64 * 128, 64 * 64 + 2 * 8 * 128, 4)
ZAMBA: dict[str, Any] = {
    "model_type": "zamba2",
    "num_hidden_layers": 2,
    "hidden_size": 3584,
    "num_attention_heads": 32,
    "num_key_value_heads": 32,
    "attention_head_dim": 224,
    "n_mamba_heads": 112,
    "mamba_headdim": 64,
    "mamba_expand": 2,
    "mamba_d_state": 64,
    "mamba_d_conv": 4,
    "mamba_ngroups": 2,
}
ZAMBA_STATE = Recurrent(112, 64 * 64, 7168 + 2 * 2 * 64, 4)
DELTA = {"linear_num_value_heads": 32, "linear_num_key_heads": 16, "linear_value_head_dim": 128}


@pytest.mark.parametrize(
    ("config", "attention"),
    [
        # TensorRT-LLM#5371, inference-sim#1558: attention in a few layers, none at all in those of experts
        ({**BASE, **NEMOTRON, "hybrid_override_pattern": "ME*-"}, (MAMBA, NoCache(), FULL, NoCache())),
        (
            {**BASE, **NEMOTRON, "layers_block_type": ["mamba", "moe", "attention", "mamba"]},
            (MAMBA, NoCache(), FULL, MAMBA),
        ),
        # llmfit#951, vllm#37124: three of four layers keep a state
        (
            {**BASE, **DELTA, "linear_key_head_dim": 128, "linear_conv_kernel_dim": 4, "full_attention_interval": 4},
            (*(Recurrent(32, 128 * 128, 8192, 4),) * 3, FULL),
        ),
        (
            {**BASE, "attn_layer_period": 4, "attn_layer_offset": 2, "mamba_d_state": 16, "mamba_expand": 2},
            (*(Recurrent(8192, 16, 8192, 4),) * 2, FULL, Recurrent(8192, 16, 8192, 4)),
        ),
        (
            {**BASE, "full_attn_idxs": [1], "conv_L_cache": 3},
            tuple(FULL if n == 1 else Recurrent(0, 0, 4096, 3) for n in range(4)),
        ),
        # hf-mem#70, vllm#21863: where a window is not in every layer, counting it everywhere promises too much
        ({**SLIDES, "sliding_window_pattern": 2}, (WINDOW, FULL) * 2),
        ({**SLIDES, "sliding_window_pattern": "LLLG"}, (*(WINDOW,) * 3, FULL)),
        ({**SLIDES, "model_type": "gemma2"}, (WINDOW, FULL) * 2),
        (
            {"model_type": "gemma3", "text_config": {**SLIDES, "model_type": "gemma3_text", "num_hidden_layers": 6}},
            (*(WINDOW,) * 5, FULL),
        ),
        ({**SLIDES, "model_type": "mistral"}, (WINDOW,) * 4),
        ({**SLIDES, "model_type": "brand_new"}, (FULL,) * 4),
        # vllm#15705, transformers#35896
        ({**SLIDES, "use_sliding_window": True, "max_window_layers": 3}, (*(FULL,) * 3, WINDOW)),
        ({**SLIDES, "use_sliding_window": False, "max_window_layers": 3}, (FULL,) * 4),
        (
            {**SLIDES, "hybrid_layer_pattern": [0, 1, 1, 0], "swa_num_key_value_heads": 4},
            (FULL, Gqa(4, 128, 1024), Gqa(4, 128, 1024), FULL),
        ),
        # ollama#16958: other heads in the layers that keep all tokens; gguf-parser-go#32: the last read others' cache
        (
            {
                **SLIDES,
                "layer_types": ["sliding_attention", "full_attention"] * 2,
                "global_head_dim": 512,
                "num_kv_shared_layers": 1,
            },
            (WINDOW, Gqa(8, 512), WINDOW, NoCache()),
        ),
        # vllm#2062: a list of heads, or blocks of which some have no attention
        ({**BASE, "num_key_value_heads": [8, 4, 0, 1]}, (FULL, Gqa(4, 128), NoCache(), Gqa(1, 128))),
        (
            {
                **BASE,
                "num_key_value_heads": None,
                "block_configs": [
                    {"attention": {"n_heads_in_group": 4}},
                    {"attention": {"no_op": True, "n_heads_in_group": None}},
                ]
                * 2,
            },
            (FULL, NoCache()) * 2,
        ),
        # Falcon-H1-7B's numbers, and Zamba2-7B's: attention and a state in one layer
        (
            {
                "model_type": "falcon_h1",
                "num_hidden_layers": 2,
                "num_attention_heads": 12,
                "hidden_size": 3072,
                "num_key_value_heads": 2,
                "head_dim": 128,
                "attn_layer_indices": None,
                "mamba_d_ssm": 3072,
                "mamba_n_heads": 24,
                "mamba_d_head": "auto",
                "mamba_d_state": 256,
                "mamba_n_groups": 1,
            },
            (Gqa(2, 128, beside=Recurrent(24, 128 * 256, 3072 + 2 * 256, 4)),) * 2,
        ),
        ({**ZAMBA, "layers_block_type": ["mamba", "hybrid"]}, (ZAMBA_STATE, Gqa(32, 224, beside=ZAMBA_STATE))),
        ({**ZAMBA, "hybrid_layer_ids": [0]}, (Gqa(32, 224, beside=ZAMBA_STATE), ZAMBA_STATE)),
        # Hunyuan-Large: each layer of vLLM's and SGLang's has a cache of its own, also one that reads another's keys
        ({**BASE, "model_type": "hunyuan", "use_cla": True, "cla_share_factor": 2}, (FULL,) * 4),
    ],
)
def test_each_layer_keeps_what_its_kind_keeps(config: dict[str, Any], attention: tuple[object, ...]) -> None:
    """A cache counted in every layer refuses what fits; a window counted in every layer promises what does not."""
    assert attention == read_shape(config).attention


@pytest.mark.parametrize(
    ("config", "layers", "attention"),
    [
        (
            {
                "num_hidden_layers": 2,
                "num_attention_heads": 71,
                "num_kv_heads": 71,
                "multi_query": True,
                "hidden_size": 4544,
            },
            2,
            Gqa(1, 64),
        ),
        ({"n_layer": 2, "n_head": 48, "n_embd": 6144, "multi_query": True}, 2, Gqa(1, 128)),
        ({"num_layers": 2, "num_attention_heads": 32, "multi_query_group_num": 2, "kv_channels": 128}, 2, Gqa(2, 128)),
        ({"n_layers": 2, "n_heads": 48, "d_model": 6144, "attn_config": {"kv_n_heads": 8}}, 2, Gqa(8, 128)),
        ({"thinker_config": {"text_config": BASE}}, 4, FULL),
    ],
    ids=["falcon", "starcoder", "chatglm", "dbrx", "omni"],
)
def test_families_that_use_other_words(config: dict[str, Any], layers: int, attention: Gqa) -> None:
    """One key and value head for all, other names for the same number, a model two folds deep."""
    assert (layers, (attention,) * layers) == (read_shape(config).layers, read_shape(config).attention)


@pytest.mark.parametrize(
    "config",
    [
        {**BASE, "mamba_d_ssm": 4096},
        {**BASE, "attn_type_list": [0, 0, 0, 1]},
        {**BASE, "layers_block_type": ["mamba", "hybrid"] * 2},
        {**BASE, "hybrid_override_pattern": "MM*M"},
    ],
)
def test_a_state_that_is_not_understood_is_never_a_cache(config: dict[str, Any]) -> None:
    """Nothing is said about tokens then, instead of something wrong."""
    assert why_unknown(read_shape(config)) is not None
    assert any(isinstance(attention, Unknown) for attention in read_shape(config).attention)


@pytest.mark.parametrize(
    ("says", "tokens"),
    [
        ({}, 32768),
        # vllm#4930, vllm#8793
        ({"rope_scaling": {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}}, 131072),
        ({"rope_scaling": {"rope_type": "yarn", "factor": 8, "original_max_position_embeddings": 4096}}, 32768),
        (
            {"rope_parameters": {"full_attention": {"rope_type": "linear", "factor": 2.0}, "sliding_attention": {}}},
            65536,
        ),
        ({"rope_scaling": {"rope_type": "llama3", "factor": 8.0, "original_max_position_embeddings": 8192}}, 32768),
        ({"rope_scaling": {"type": "video_rope", "factor": None}}, 32768),  # vllm-omni#1343
        ({"model_max_length": 131072}, 131072),
        ({"seq_length": 8192}, 8192),
    ],
)
def test_the_length_that_is_served_unasked(says: dict[str, Any], tokens: int) -> None:
    """vLLM multiplies by the factor of RoPE, but not where the length was multiplied already."""
    assert tokens == read_shape({**BASE, **says}).max_context_tokens


def test_a_tensor_parallel_degree_divides_the_query_heads() -> None:
    """Four key and value heads are copied on eight ranks; the 32 of the queries are divided."""
    assert 32 == model_of((), read_shape({**BASE, "num_key_value_heads": 4})).heads


@pytest.mark.parametrize(("attention", "heads"), [("mamba", 112), ("hybrid", 16)])
def test_it_divides_the_heads_of_states_as_well(attention: str, heads: int) -> None:
    """Zamba2 has 112 heads of states in each layer, and 32 of queries in some."""
    assert heads == model_of((), read_shape({**ZAMBA, "layers_block_type": ["mamba", attention]})).heads


def test_a_list_shorter_than_the_layers_says_nothing() -> None:
    """It is not taken for the first layers' alone."""
    assert ["full_attention"] * 4 == layer_kinds({"layer_types": ["mamba"]}, 4)


@pytest.mark.timeout(20)
@pytest.mark.parametrize("layers", [10**7, 10**12, 10**299])
def test_a_number_of_layers_that_no_model_has_is_not_believed(layers: int) -> None:
    """Nothing is counted layer by layer then: it took all memory, or for ever."""
    shape = read_shape({**BASE, "num_hidden_layers": layers})

    assert (None, ()) == (shape.layers, shape.attention)


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    "listing",
    [
        {"attn_layer_indices": [None, [], *range(1, 500_000)], **NEMOTRON},
        {"linear_attn_config": {"kda_layers": [[], *range(1, 500_000)], "num_heads": 4, "head_dim": 8}},
        {"linear_attn_config": {"kda_layers": 7, "num_heads": 4, "head_dim": 8}},
    ],
)
def test_layers_are_looked_up_in_lists_of_any_length(listing: dict[str, Any]) -> None:
    """Of numbers and of what is none: 10,000 layers times a list of half a million took minutes."""
    assert 10_000 == len(read_shape({**BASE, "num_hidden_layers": 10_000, **listing}).attention)


@pytest.mark.parametrize("name", ["num_attention_heads", "num_key_value_heads", "head_dim", "max_position_embeddings"])
def test_a_number_that_nothing_has_is_not_believed(name: str) -> None:
    """Bytes made of it would be more than a float holds, and could not be shown."""
    said = read_shape({**BASE, name: 10**299})

    assert 10**299 not in (said.heads, said.kv_heads, said.max_context_tokens)
    assert all(10**299 not in (a.kv_heads, a.head_dim) for a in said.attention if isinstance(a, Gqa))


def test_a_kind_of_layer_is_named_in_a_few_words() -> None:
    """Whatever stands there."""
    why = why_unknown(read_shape({**BASE, "layer_types": ["x" * 100_000] * 4}))

    assert why and 200 > len(why)
