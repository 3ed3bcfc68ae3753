"""What does a checkpoint look like that loads as a real one does, and means nothing?

The layout of DeepSeek-V3: FP8 weights with one scale for 128 x 128 numbers, routed experts, latent attention. Random
numbers of a sensible size, so that nothing overflows. Needs numpy only, which every engine brings along.

    python -m gpubench.model DIR [--layers 48] [--experts 128] [--shards 111]
"""

from __future__ import annotations

import argparse
import json
import math
import shutil
import struct
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

_BLOCK = 128
_SPREAD = 0.05
_SCALE = 0.02
_WRITERS = 8
_DTYPE = {"weight": ("F8_E4M3", 1), "scale": ("F32", 4), "plain": ("BF16", 2), "bias": ("F32", 4), "norm": ("BF16", 2)}


@dataclass(frozen=True, slots=True)
class Shape:
    """The model's sizes. The default is one that two GPUs load in seconds: 36.5 GiB with 48 layers."""

    layers: int = 48
    experts: int = 128
    shards: int = 111
    hidden: int = 2048
    expert_width: int = 1024
    dense_width: int = 8192
    vocabulary: int = 32000
    heads: int = 16
    latent: int = 512


@dataclass(frozen=True, slots=True)
class Tensor:
    """kind: a key of _DTYPE."""

    name: str
    shape: tuple[int, ...]
    kind: str

    @property
    def size_bytes(self) -> int:
        return math.prod(self.shape) * _DTYPE[self.kind][1]


def make(folder: Path, shape: Shape) -> int:
    """Write the checkpoint, unless it is there; return the bytes of its weights. It gets its name when it is whole."""
    index = folder / "model.safetensors.index.json"
    if not index.exists():
        making = folder.with_name(f".{folder.name}.making")
        shutil.rmtree(making, ignore_errors=True)
        making.mkdir(parents=True)
        _write(making, shape)
        shutil.rmtree(folder, ignore_errors=True)
        making.rename(folder)
    return int(json.loads(index.read_text())["metadata"]["total_size"])


def _write(folder: Path, shape: Shape) -> None:
    groups = split(tuple(tensors(shape)), shape.shards)
    names = [f"model-{n:05d}-of-{len(groups):06d}.safetensors" for n in range(1, len(groups) + 1)]
    pool = _weights()
    with ThreadPoolExecutor(_WRITERS) as pool_of_writers:
        list(pool_of_writers.map(lambda n: _write_shard(folder / names[n], groups[n], pool, n), range(len(groups))))
    total = sum(t.size_bytes for group in groups for t in group)
    where = {t.name: name for name, group in zip(names, groups, strict=True) for t in group}
    for name, document in (
        ("config.json", config(shape)),
        ("generation_config.json", {"bos_token_id": 0, "eos_token_id": 1}),
        ("model.safetensors.index.json", {"metadata": {"total_size": total}, "weight_map": where}),
    ):
        (folder / name).write_text(json.dumps(document, indent=1))


def _write_shard(path: Path, group: list[Tensor], weights: np.ndarray, seed: int) -> None:
    import numpy as np

    random = np.random.default_rng(seed)
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    end = 0
    for tensor in group:
        start, end = end, end + tensor.size_bytes
        header[tensor.name] = {
            "dtype": _DTYPE[tensor.kind][0],
            "shape": list(tensor.shape),
            "data_offsets": [start, end],
        }
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb", buffering=0) as out:
        out.write(struct.pack("<Q", len(text)) + text)
        for tensor in group:
            for piece in _content(tensor, weights, random):
                out.write(piece.data)


def _content(tensor: Tensor, weights: np.ndarray, random: np.random.Generator) -> Iterator[np.ndarray]:
    import numpy as np

    count = math.prod(tensor.shape)
    match tensor.kind:
        case "weight":
            while count:
                size = min(count, len(weights) // 2)
                start = int(random.integers(0, len(weights) - size))
                yield weights[start : start + size]
                count -= size
        case "scale":
            yield np.full(count, _SCALE, np.float32)
        case "bias":
            yield np.zeros(count, np.float32)
        case "norm":
            yield np.full(count, 0x3F80, np.uint16)  # 1.0
        case _:
            normal = random.standard_normal(count, np.float32) * np.float32(_SCALE)
            yield (normal.view(np.uint32) >> 16).astype(np.uint16)


def _weights() -> np.ndarray:
    """Return normally distributed numbers as FP8 E4M3, from which every tensor takes its part."""
    import numpy as np

    codes = np.arange(127)  # 0x7f is no number
    exponent, fraction = codes >> 3, codes & 7
    values = np.where(exponent == 0, fraction * 2.0**-9, (1 + fraction / 8) * 2.0 ** (exponent - 7.0))
    edges = ((values[1:] + values[:-1]) / 2).astype(np.float32)
    normal = np.random.default_rng(0).standard_normal(1 << 25, np.float32) * np.float32(_SPREAD)
    found = np.searchsorted(edges, np.abs(normal)).astype(np.uint8)
    return np.where(normal < 0, found | 0x80, found).astype(np.uint8)


def tensors(shape: Shape) -> Iterator[Tensor]:
    """Yield every tensor in the order of the layers, the three of no layer first."""
    yield Tensor("model.embed_tokens.weight", (shape.vocabulary, shape.hidden), "plain")
    yield Tensor("lm_head.weight", (shape.vocabulary, shape.hidden), "plain")
    yield Tensor("model.norm.weight", (shape.hidden,), "norm")
    for layer in range(shape.layers):
        yield from _layer(f"model.layers.{layer}.", layer, shape)


def _layer(prefix: str, layer: int, shape: Shape) -> Iterator[Tensor]:
    hidden, heads, latent = shape.hidden, shape.heads, shape.latent
    yield Tensor(f"{prefix}input_layernorm.weight", (hidden,), "norm")
    yield Tensor(f"{prefix}post_attention_layernorm.weight", (hidden,), "norm")
    attention = f"{prefix}self_attn."
    yield Tensor(f"{attention}kv_a_layernorm.weight", (latent,), "norm")
    yield from _linear(f"{attention}q_proj", heads * 192, hidden)
    yield from _linear(f"{attention}kv_a_proj_with_mqa", latent + 64, hidden)
    yield from _linear(f"{attention}kv_b_proj", heads * 256, latent)
    yield from _linear(f"{attention}o_proj", hidden, heads * 128)
    if layer == 0:
        yield from _mlp(f"{prefix}mlp.", shape.dense_width, hidden)
        return
    yield Tensor(f"{prefix}mlp.gate.weight", (shape.experts, hidden), "plain")
    yield Tensor(f"{prefix}mlp.gate.e_score_correction_bias", (shape.experts,), "bias")
    for expert in range(shape.experts):
        yield from _mlp(f"{prefix}mlp.experts.{expert}.", shape.expert_width, hidden)
    yield from _mlp(f"{prefix}mlp.shared_experts.", shape.expert_width, hidden)


def _mlp(prefix: str, width: int, hidden: int) -> Iterator[Tensor]:
    yield from _linear(f"{prefix}gate_proj", width, hidden)
    yield from _linear(f"{prefix}up_proj", width, hidden)
    yield from _linear(f"{prefix}down_proj", hidden, width)


def _linear(name: str, rows: int, columns: int) -> Iterator[Tensor]:
    yield Tensor(f"{name}.weight", (rows, columns), "weight")
    yield Tensor(f"{name}.weight_scale_inv", (-(-rows // _BLOCK), -(-columns // _BLOCK)), "scale")


def split(found: tuple[Tensor, ...], shards: int) -> list[list[Tensor]]:
    """Divide tensors, in their order, into at most that many shards of about one size."""
    per_shard = sum(t.size_bytes for t in found) / shards
    groups: list[list[Tensor]] = [[]]
    done = 0
    for tensor in found:
        if groups[-1] and len(groups) < shards and done >= per_shard * len(groups):
            groups.append([])
        groups[-1].append(tensor)
        done += tensor.size_bytes
    return groups


def config(shape: Shape) -> dict[str, Any]:
    """Return config.json."""
    return {
        "architectures": ["DeepseekV3ForCausalLM"],
        "model_type": "deepseek_v3",
        "torch_dtype": "bfloat16",
        "vocab_size": shape.vocabulary,
        "hidden_size": shape.hidden,
        "intermediate_size": shape.dense_width,
        "moe_intermediate_size": shape.expert_width,
        "num_hidden_layers": shape.layers,
        "num_nextn_predict_layers": 0,
        "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.heads,
        "kv_lora_rank": shape.latent,
        "q_lora_rank": None,
        "qk_rope_head_dim": 64,
        "qk_nope_head_dim": 128,
        "v_head_dim": 128,
        "n_routed_experts": shape.experts,
        "n_shared_experts": 1,
        "num_experts_per_tok": 8,
        "n_group": 8,
        "topk_group": 4,
        "topk_method": "noaux_tc",
        "scoring_func": "sigmoid",
        "norm_topk_prob": True,
        "routed_scaling_factor": 2.5,
        "moe_layer_freq": 1,
        "first_k_dense_replace": 1,
        "hidden_act": "silu",
        "rms_norm_eps": 1e-6,
        "rope_theta": 10000.0,
        "max_position_embeddings": 8192,
        "attention_bias": False,
        "tie_word_embeddings": False,
        "bos_token_id": 0,
        "eos_token_id": 1,
        "quantization_config": {
            "quant_method": "fp8",
            "fmt": "e4m3",
            "activation_scheme": "dynamic",
            "weight_block_size": [_BLOCK, _BLOCK],
        },
    }


def main(argv: list[str]) -> int:
    """Make a checkpoint and say how large it is."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--layers", type=int, default=48)
    parser.add_argument("--experts", type=int, default=128)
    parser.add_argument("--shards", type=int, default=111)
    asked = parser.parse_args(argv)
    started = time.monotonic()
    size = make(asked.folder, replace(Shape(), layers=asked.layers, experts=asked.experts, shards=asked.shards))
    print(f"{asked.folder}: {size / 2**30:.2f} GiB of weights, {time.monotonic() - started:.1f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
