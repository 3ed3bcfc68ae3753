"""Which tensors does a checkpoint hold, and what is each of them for?"""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kboot.errors import FactMissing
from kboot.plan.memory.tensors import Gatherer, HeaderNotValid, Part, TensorGroup, part_of, read_tensors

COMPACT = (",", ":")
LOOSE = (", ", ": ")


def header(*tensors: tuple[str, str, list[int], int], separators: tuple[str, str] = COMPACT) -> tuple[bytes, int]:
    """Return a header and the size of the data behind it. tensors: name, dtype, shape, bytes."""
    found, at = {}, 0
    for name, dtype, shape, size in tensors:
        found[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + size]}
        at += size
    return json.dumps({"__metadata__": {"format": "pt"}, **found}, separators=separators).encode(), at


def test_experts_of_a_layer_are_one_group_whatever_file_they_lie_in() -> None:
    """Experts 0-2 in two files, one of them of another size, and a tensor that belongs to none."""
    one = header(("l.0.experts.0.w1.weight", "U8", [4, 2], 8), ("l.0.experts.1.w1.weight", "U8", [4, 2], 8))
    two = header(("l.0.experts.2.w1.weight", "U8", [4, 3], 12), ("l.0.gate.weight", "BF16", [3, 2], 12))

    assert (
        TensorGroup("l.0.experts.*.w1.weight", "U8", (4, 2), 8, (0, 1)),
        TensorGroup("l.0.experts.*.w1.weight", "U8", (4, 3), 12, (2,)),
        TensorGroup("l.0.gate.weight", "BF16", (3, 2), 12),
    ) == read_tensors([("a", *one), ("b", *two)])


@given(
    st.lists(
        st.tuples(
            st.text(min_size=1, max_size=12).filter(lambda name: name != "__metadata__"),
            st.sampled_from(["F32", "BF16", "U8", "F8_E4M3"]),
            st.lists(st.integers(0, 9), max_size=3),
            st.integers(0, 99),
        ),
        max_size=8,
        unique_by=lambda tensor: tensor[0],
    )
)
def test_scanning_and_parsing_find_the_same(tensors: list[tuple[str, str, list[int], int]]) -> None:
    """However a header is written, with escapes or blanks, the tensors are the same."""
    found = [read_tensors([("a", *header(*tensors, separators=s))]) for s in (COMPACT, LOOSE)]

    assert found[0] == found[1]
    assert sum(size for *_, size in tensors) == sum(group.stored_bytes for group in found[0])


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"[]",
        b'{"a":1}',
        b'{"a":{"dtype":"F32","shape":[1]}}',
        b'{"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}}',
        b'{"a":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}}',
        b'{"a":{"dtype":"F32","shape":[1],"data_offsets":[0]}}',
        b"{" * 5000,
        b'{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,' + b"9" * 5000 + b"]}}",
        b'{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,' + b"9" * 400 + b"]}}",
        b'{"a":{"dtype":"F32","shape":[' + b"9" * 5000 + b'],"data_offsets":[0,4]}}',
        b'{"a.experts.' + b"9" * 5000 + b'.b":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}',
    ],
)
def test_what_is_no_header_is_said_with_its_file(text: bytes) -> None:
    """Never a traceback, always the name of the file."""
    with pytest.raises(FactMissing, match=r"bad\.safetensors: (not a safetensors header|its tensors take)"):
        read_tensors([("bad.safetensors", text, 4)])


def test_tensors_that_do_not_sum_to_the_file_are_refused() -> None:
    """A truncated file is not taken for what its header says."""
    text, size = header(("a", "U8", [8], 8))

    with pytest.raises(HeaderNotValid, match="its tensors take 8 bytes, the file has 7 of data"):
        Gatherer().add(text, size - 1)


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("language_model.model.layers.4.block_sparse_moe.experts.*.w1.weight_packed", Part.EXPERTS),
        ("model.layers.4.mlp.experts.gate_up_proj", Part.EXPERTS),
        ("model.layers.4.mlp.shared_experts.up_proj.weight", Part.SHARED),
        ("model.layers.4.mlp.shared_expert_gate.weight", Part.SHARED),
        ("model.layers.4.mlp.gate.weight", Part.ROUTER),
        ("model.layers.4.mlp.gate.e_score_correction_bias", Part.ROUTER),
        ("model.layers.4.block_sparse_moe.routed_expert_down_proj.weight", Part.LATENT),
        ("model.layers.4.block_sparse_moe.routed_expert_norm.weight", Part.NORM),
        ("model.layers.4.self_attn.q_b_proj.weight_scale_inv", Part.ATTENTION),
        ("model.layers.2.self_attn.q_proj.weight", Part.LINEAR_ATTENTION),
        ("model.layers.4.self_attn.kv_a_layernorm.weight", Part.NORM),
        ("model.layers.4.mlp.down_proj.weight", Part.DENSE),
        ("model.layers.61.mlp.experts.*.up_proj.weight", Part.MTP),
        ("mtp.layers.0.mlp.up_proj.weight", Part.MTP),
        ("language_model.model.embed_tokens.weight", Part.EMBEDDING),
        ("language_model.lm_head.weight", Part.HEAD),
        ("vision_tower.encoder.blocks.3.wqkv.weight", Part.VISION),
        ("mm_projector.proj.0.weight", Part.VISION),
        ("model.norm.weight", Part.NORM),
        ("something.else", Part.OTHER),
    ],
)
def test_purposes_come_from_names(name: str, part: Part) -> None:
    """Names as Kimi K2, K3, DeepSeek and Qwen write them; layer 2 has linear attention, 61 layers are decoded."""
    assert part is part_of(TensorGroup(name, "BF16", (2, 2), 8), 61, frozenset({2}))
