"""A checkpoint of true size without its data: real safetensors headers, and holes where the numbers would be.

    python -m kboot.demo.giant DIR [--shards 111]

The tensors are those of Kimi K3, as its headers publish them: 93 layers, 24 of them with latent attention and 69 with
Kimi Delta Attention, 896 routed experts of MXFP4 in each layer but the first, the rest BF16. 1,561 GB to every program
that asks for a size; what the disk holds is the headers, 75 MB.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

WIDTHS = {"BF16": 2, "F32": 4, "U8": 1}


@dataclass(frozen=True, slots=True)
class Sizes:
    """The numbers of a model of this kind; the defaults are those of the real one."""

    layers: int = 93
    hidden: int = 7168
    vocabulary: int = 163_840
    heads: int = 96
    head_dim: int = 128
    query_rank: int = 1536
    latent: int = 512
    rope: int = 64
    dense: int = 33_792
    expert: int = 3072
    expert_hidden: int = 3584
    experts: int = 896
    shared: int = 2
    vision_layers: int = 27
    vision_hidden: int = 1152
    vision_mlp: int = 4304
    context: int = 1_048_576

    @property
    def latent_layers(self) -> frozenset[int]:
        """Layers with latent attention: every fourth, and the last."""
        return frozenset({*range(3, self.layers - 1, 4), self.layers - 1})


@dataclass(frozen=True, slots=True)
class Entry:
    """One tensor of a header."""

    name: str
    shape: tuple[int, ...]
    dtype: str = "BF16"

    @property
    def size_bytes(self) -> int:
        """Bytes of its data."""
        return math.prod(self.shape) * WIDTHS[self.dtype]


def entries(sizes: Sizes) -> Iterator[Entry]:
    """Return every tensor, in the order of the layers."""
    model, hidden = "language_model.model.", sizes.hidden
    yield Entry(f"{model}embed_tokens.weight", (sizes.vocabulary, hidden))
    for layer in range(sizes.layers):
        yield from _layer(f"{model}layers.{layer}.", layer, sizes)
    for name in ("norm", "output_attn_res_norm"):
        yield Entry(f"{model}{name}.weight", (hidden,))
    yield Entry(f"{model}output_attn_res_proj.weight", (1, hidden))
    yield Entry("language_model.lm_head.weight", (sizes.vocabulary, hidden))
    yield from _vision(sizes)


def config(sizes: Sizes) -> dict[str, object]:
    """Return what config.json says."""
    kda = [layer + 1 for layer in range(sizes.layers) if layer not in sizes.latent_layers]
    linear = {"head_dim": sizes.head_dim, "num_heads": sizes.heads, "short_conv_kernel_size": 4, "kda_layers": kda}
    text = {
        "model_type": "kimi_linear",
        "hidden_size": sizes.hidden,
        "num_hidden_layers": sizes.layers,
        "num_attention_heads": sizes.heads,
        "q_lora_rank": sizes.query_rank,
        "kv_lora_rank": sizes.latent,
        "qk_rope_head_dim": sizes.rope,
        "qk_nope_head_dim": sizes.head_dim,
        "v_head_dim": sizes.head_dim,
        "num_experts": sizes.experts,
        "max_position_embeddings": sizes.context,
        "linear_attn_config": {**linear, "full_attn_layers": sorted(n + 1 for n in sizes.latent_layers)},
    }
    packed = {"quant_method": "compressed-tensors", "format": "mxfp4-pack-quantized"}
    return {"model_type": "kimi_k3", "dtype": "bfloat16", "quantization_config": packed, "text_config": text}


def write(folder: Path, shards: int = 111, sizes: Sizes | None = None) -> int:
    """Write the shards, their index and config.json; return the bytes of all tensors."""
    sizes = sizes or Sizes()
    folder.mkdir(parents=True, exist_ok=True)
    files = _split(list(entries(sizes)), shards)
    names = [f"model-{n:05d}-of-{len(files):06d}.safetensors" for n in range(1, len(files) + 1)]
    with (folder / "model.safetensors.index.json").open("w") as index:
        index.write('{"metadata": {}, "weight_map": {')
        for number, (name, tensors) in enumerate(zip(names, files, strict=True)):
            index.write(", " * (number > 0) + ", ".join(f'"{t.name}": "{name}"' for t in tensors))
            _write_shard(folder / name, tensors)
        index.write("}}")
    (folder / "config.json").write_text(json.dumps(config(sizes)))
    return sum(entry.size_bytes for tensors in files for entry in tensors)


def _layer(prefix: str, layer: int, sizes: Sizes) -> Iterator[Entry]:
    for norm in ("input_layernorm", "post_attention_layernorm", "self_attention_res_norm", "mlp_res_norm"):
        yield Entry(f"{prefix}{norm}.weight", (sizes.hidden,))
    for projection in ("self_attention_res_proj", "mlp_res_proj"):
        yield Entry(f"{prefix}{projection}.weight", (1, sizes.hidden))
    attention = _latent if layer in sizes.latent_layers else _delta
    yield from attention(f"{prefix}self_attn.", sizes)
    if layer == 0:
        yield from _gated(f"{prefix}mlp.", sizes.hidden, sizes.dense)
    else:
        yield from _experts(f"{prefix}block_sparse_moe.", sizes)


def _latent(prefix: str, sizes: Sizes) -> Iterator[Entry]:
    inner = sizes.heads * sizes.head_dim
    yield Entry(f"{prefix}q_a_proj.weight", (sizes.query_rank, sizes.hidden))
    yield Entry(f"{prefix}q_a_layernorm.weight", (sizes.query_rank,))
    yield Entry(f"{prefix}q_b_proj.weight", (sizes.heads * (sizes.head_dim + sizes.rope), sizes.query_rank))
    yield Entry(f"{prefix}kv_a_proj_with_mqa.weight", (sizes.latent + sizes.rope, sizes.hidden))
    yield Entry(f"{prefix}kv_a_layernorm.weight", (sizes.latent,))
    yield Entry(f"{prefix}kv_b_proj.weight", (2 * inner, sizes.latent))
    yield Entry(f"{prefix}g_proj.weight", (inner, sizes.hidden))
    yield Entry(f"{prefix}o_proj.weight", (sizes.hidden, inner))


def _delta(prefix: str, sizes: Sizes) -> Iterator[Entry]:
    inner = sizes.heads * sizes.head_dim
    for name in ("q", "k", "v"):
        yield Entry(f"{prefix}{name}_proj.weight", (inner, sizes.hidden))
        yield Entry(f"{prefix}{name}_conv1d.weight", (inner, 1, 4), "F32")
    yield Entry(f"{prefix}f_a_proj.weight", (sizes.head_dim, sizes.hidden))
    yield Entry(f"{prefix}f_b_proj.weight", (inner, sizes.head_dim))
    yield Entry(f"{prefix}b_proj.weight", (sizes.heads, sizes.hidden))
    yield Entry(f"{prefix}g_proj.weight", (inner, sizes.hidden))
    yield Entry(f"{prefix}A_log", (sizes.head_dim,), "F32")
    yield Entry(f"{prefix}dt_bias", (inner,), "F32")
    yield Entry(f"{prefix}o_norm.weight", (sizes.head_dim,), "F32")
    yield Entry(f"{prefix}o_proj.weight", (sizes.hidden, inner))


def _gated(prefix: str, hidden: int, inner: int) -> Iterator[Entry]:
    yield Entry(f"{prefix}gate_proj.weight", (inner, hidden))
    yield Entry(f"{prefix}up_proj.weight", (inner, hidden))
    yield Entry(f"{prefix}down_proj.weight", (hidden, inner))


def _experts(prefix: str, sizes: Sizes) -> Iterator[Entry]:
    latent, inner = sizes.expert_hidden, sizes.expert
    yield Entry(f"{prefix}gate.weight", (sizes.experts, sizes.hidden))
    yield Entry(f"{prefix}gate.e_score_correction_bias", (sizes.experts,), "F32")
    yield from _gated(f"{prefix}shared_experts.", sizes.hidden, inner * sizes.shared)
    yield Entry(f"{prefix}routed_expert_down_proj.weight", (latent, sizes.hidden))
    yield Entry(f"{prefix}routed_expert_norm.weight", (latent,))
    yield Entry(f"{prefix}routed_expert_up_proj.weight", (sizes.hidden, latent))
    for expert in range(sizes.experts):
        for name, (rows, columns) in (("w1", (inner, latent)), ("w2", (latent, inner)), ("w3", (inner, latent))):
            yield Entry(f"{prefix}experts.{expert}.{name}.weight_packed", (rows, columns // 2), "U8")
            yield Entry(f"{prefix}experts.{expert}.{name}.weight_scale", (rows, columns // 32), "U8")


def _vision(sizes: Sizes) -> Iterator[Entry]:
    hidden = sizes.vision_hidden
    for block in range(sizes.vision_layers):
        prefix = f"vision_tower.encoder.blocks.{block}."
        yield Entry(f"{prefix}wqkv.weight", (3 * hidden, hidden))
        yield Entry(f"{prefix}wo.weight", (hidden, hidden))
        yield Entry(f"{prefix}mlp.fc0.weight", (sizes.vision_mlp, hidden))
        yield Entry(f"{prefix}mlp.fc1.weight", (hidden, sizes.vision_mlp))
    yield Entry("mm_projector.proj.0.weight", (4 * hidden, 4 * hidden))
    yield Entry("mm_projector.proj.2.weight", (sizes.hidden, 4 * hidden))


def _split(tensors: Sequence[Entry], shards: int) -> list[list[Entry]]:
    """Return the tensors in files of about the same size."""
    part = sum(entry.size_bytes for entry in tensors) / shards
    files: list[list[Entry]] = [[]]
    done = 0
    for entry in tensors:
        if done >= part * len(files) and len(files) < shards:
            files.append([])
        files[-1].append(entry)
        done += entry.size_bytes
    return files


def _write_shard(path: Path, tensors: Sequence[Entry]) -> None:
    lines, end = [], 0
    for entry in tensors:
        start, end = end, end + entry.size_bytes
        shape = ",".join(map(str, entry.shape))
        lines.append(f'"{entry.name}":{{"dtype":"{entry.dtype}","shape":[{shape}],"data_offsets":[{start},{end}]}}')
    header = ("{" + ",".join(lines) + "}").encode()
    header += b" " * (-len(header) % 8)
    with path.open("wb") as file:
        file.write(len(header).to_bytes(8, "little") + header)
        file.truncate(8 + len(header) + end)


def main() -> None:
    """Write the checkpoint and say how large it is."""
    parser = argparse.ArgumentParser(prog="kboot.demo.giant", description="Write a 1,561 GB checkpoint without data.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--shards", type=int, default=111)
    asked = parser.parse_args()
    size_bytes = write(asked.folder, asked.shards)
    print(f"{size_bytes / 1e9:,.2f} GB in {asked.shards} files below {asked.folder}")


if __name__ == "__main__":
    main()
