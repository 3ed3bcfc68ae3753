"""What does the demo's model look like? A real MoE checkpoint in many shards, the same bytes on every machine.

Its numbers mean nothing, its form is that of a published one: safetensors with an index, MXFP4-packed experts by name,
BF16 attention, a tokenizer, a licence, and files nobody should fetch.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import math
import os
import shutil
import struct
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

_SEED = "kboot demo 1"
_LFS = (".safetensors", ".bin")
_BYTES = {"BF16": 2, "F32": 4, "U8": 1}
_BLOCK = 32  # MXFP4: one scale for 32 numbers of 4 bits
_LICENSE = """These weights are the output of a hash function.
They are in the public domain and good for nothing but tests.
"""
_CARD = """---
license: cc0-1.0
library_name: kboot
---
# demo-moe

A mixture-of-experts checkpoint of random numbers in {shards} shards, for trying kboot without a GPU.
"""


@dataclass(frozen=True, slots=True)
class File:
    """One file of the repository. oid: of the git object; sha256: of the content, for files kept in LFS."""

    path: str
    size_bytes: int
    oid: str
    sha256: str | None


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """folder: where the files lie. commit: 40 hex digits over all of them."""

    folder: Path
    commit: str
    files: tuple[File, ...]


@dataclass(frozen=True, slots=True)
class Tensor:
    """One tensor by name, with its place still open."""

    name: str
    dtype: str
    shape: tuple[int, ...]

    @property
    def size_bytes(self) -> int:
        """Bytes of its data."""
        return math.prod(self.shape) * _BYTES[self.dtype]


@dataclass(frozen=True, slots=True)
class Shape:
    """The model's sizes, chosen so that all tensors together have about the size asked for."""

    layers: int
    experts: int
    hidden: int
    inner: int
    vocabulary: int
    heads: int = 4
    latent: int = 64


def make(data: Path, shards: int, mib_per_shard: float) -> Checkpoint:
    """Return the checkpoint below `data`, made on first use.

    It appears under its name only when it is whole and on disk; two callers at once make it once.
    """
    data.mkdir(parents=True, exist_ok=True)
    folder = data / f"demo-{shards}x{mib_per_shard:g}mib"
    with open(data / ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "manifest.json").exists():
            for left in data.glob(".making-*"):
                shutil.rmtree(left)
            making = data / f".making-{folder.name}"
            _write(making, shards, int(mib_per_shard * shards * (1 << 20)))
            os.rename(making, folder)
            _fsync(data)
    return load(folder)


def load(folder: Path) -> Checkpoint:
    """Return the checkpoint in a folder that make() wrote."""
    manifest = json.loads((folder / "manifest.json").read_text())
    return Checkpoint(folder / "files", manifest["commit"], tuple(File(**f) for f in manifest["files"]))


def _write(folder: Path, shards: int, size_bytes: int) -> None:
    files = sorted((_put(folder / "files", path, data) for path, data in _contents(shards, size_bytes)), key=_path)
    listing = [asdict(f) for f in files]
    commit = hashlib.sha1(json.dumps(listing).encode()).hexdigest()
    _put(folder, "manifest.json", json.dumps({"commit": commit, "files": listing}, indent=1).encode())
    _fsync(folder)


def _path(file: File) -> str:
    return file.path


def _put(folder: Path, path: str, data: bytes) -> File:
    """Write a file, durable, and say what the Hub's listing would."""
    target = folder / path
    target.parent.mkdir(parents=True, exist_ok=True)
    with open(target, "wb") as out:
        out.write(data)
        out.flush()
        os.fsync(out.fileno())
    _fsync(target.parent)
    if not path.endswith(_LFS):
        return File(path, len(data), _git_sha1(data), None)
    sha256 = hashlib.sha256(data).hexdigest()
    pointer = f"version https://git-lfs.github.com/spec/v1\noid sha256:{sha256}\nsize {len(data)}\n"
    return File(path, len(data), _git_sha1(pointer.encode()), sha256)


def _git_sha1(data: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


def _fsync(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _contents(shards: int, size_bytes: int) -> Iterator[tuple[str, bytes]]:
    """Yield every file, one shard in memory at a time."""
    shape = shape_for(shards, size_bytes)
    groups = split(tuple(tensors(shape)), shards)
    weight_map: dict[str, str] = {}
    total = 0
    for number, group in enumerate(groups, 1):
        name = f"model-{number:05d}-of-{shards:05d}.safetensors"
        weight_map |= {t.name: name for t in group}
        total += sum(t.size_bytes for t in group)
        yield name, safetensors(group, name)
    index = {"metadata": {"total_size": total}, "weight_map": weight_map}
    yield "model.safetensors.index.json", json.dumps(index, indent=1).encode()
    yield "config.json", json.dumps(_config(shape), indent=1).encode()
    yield "generation_config.json", json.dumps({"bos_token_id": 0, "eos_token_id": 1, "temperature": 0.0}).encode()
    yield "tokenizer.json", json.dumps(_tokenizer()).encode()
    yield "tokenizer_config.json", json.dumps({"tokenizer_class": "PreTrainedTokenizerFast"}).encode()
    yield "LICENSE", _LICENSE.encode()
    yield "README.md", _CARD.format(shards=shards).encode()
    yield (
        ".gitattributes",
        b"*.safetensors filter=lfs diff=lfs merge=lfs -text\n*.bin filter=lfs diff=lfs merge=lfs -text\n",
    )
    # What a careless client fetches as well: the same weights in other forms.
    yield "original/consolidated.safetensors", safetensors((Tensor("all", "BF16", (4096,)),), "original")
    yield "pytorch_model.bin", b"PK\x03\x04" + _noise("pytorch_model.bin", 8192)


def shape_for(shards: int, size_bytes: int) -> Shape:
    """Choose layers and widths; nine tenths of the bytes are routed experts."""
    layers = max(3, min(13, 1 + shards // 8))
    experts = 16 if size_bytes >= 16 << 20 else 8
    hidden = 256 if size_bytes >= 16 << 20 else 64
    per_expert = 0.9 * size_bytes / ((layers - 1) * experts)
    inner = per_expert / (3 * hidden * (1 / 2 + 1 / _BLOCK))
    return Shape(layers, experts, hidden, max(_BLOCK, round(inner / _BLOCK) * _BLOCK), vocabulary=8 * hidden)


def tensors(shape: Shape) -> Iterator[Tensor]:
    """Yield every tensor in the order of the layers."""
    yield Tensor("model.embed_tokens.weight", "BF16", (shape.vocabulary, shape.hidden))
    for layer in range(shape.layers):
        prefix = f"model.layers.{layer}"
        yield from _attention(f"{prefix}.self_attn", shape)
        yield Tensor(f"{prefix}.input_layernorm.weight", "BF16", (shape.hidden,))
        yield Tensor(f"{prefix}.post_attention_layernorm.weight", "BF16", (shape.hidden,))
        if layer == 0:
            yield from _dense_mlp(f"{prefix}.mlp", shape)
            continue
        yield Tensor(f"{prefix}.mlp.gate.weight", "BF16", (shape.experts, shape.hidden))
        yield Tensor(f"{prefix}.mlp.gate.e_score_correction_bias", "F32", (shape.experts,))
        yield from _dense_mlp(f"{prefix}.mlp.shared_experts", shape)
        for expert in range(shape.experts):
            yield from _packed_mlp(f"{prefix}.mlp.experts.{expert}", shape)
    yield Tensor("model.norm.weight", "BF16", (shape.hidden,))
    yield Tensor("lm_head.weight", "BF16", (shape.vocabulary, shape.hidden))


def _attention(prefix: str, shape: Shape) -> Iterator[Tensor]:
    hidden, latent = shape.hidden, shape.latent
    yield Tensor(f"{prefix}.q_proj.weight", "BF16", (hidden, hidden))
    yield Tensor(f"{prefix}.kv_a_proj_with_mqa.weight", "BF16", (latent + 16, hidden))
    yield Tensor(f"{prefix}.kv_a_layernorm.weight", "BF16", (latent,))
    yield Tensor(f"{prefix}.kv_b_proj.weight", "BF16", (2 * hidden, latent))
    yield Tensor(f"{prefix}.o_proj.weight", "BF16", (hidden, hidden))


def _dense_mlp(prefix: str, shape: Shape) -> Iterator[Tensor]:
    inner = min(shape.inner, 2 * shape.hidden)
    yield Tensor(f"{prefix}.gate_proj.weight", "BF16", (inner, shape.hidden))
    yield Tensor(f"{prefix}.up_proj.weight", "BF16", (inner, shape.hidden))
    yield Tensor(f"{prefix}.down_proj.weight", "BF16", (shape.hidden, inner))


def _packed_mlp(prefix: str, shape: Shape) -> Iterator[Tensor]:
    wide = (("gate_proj", shape.inner, shape.hidden), ("up_proj", shape.inner, shape.hidden))
    for name, rows, columns in (*wide, ("down_proj", shape.hidden, shape.inner)):
        yield Tensor(f"{prefix}.{name}.weight_packed", "U8", (rows, columns // 2))
        yield Tensor(f"{prefix}.{name}.weight_scale", "U8", (rows, columns // _BLOCK))


def split(found: tuple[Tensor, ...], shards: int) -> list[list[Tensor]]:
    """Divide tensors, in their order, into that many shards of about one size."""
    per_shard = sum(t.size_bytes for t in found) / shards
    groups: list[list[Tensor]] = [[]]
    done = 0
    for tensor in found:
        if groups[-1] and len(groups) < shards and done >= per_shard * len(groups):
            groups.append([])
        groups[-1].append(tensor)
        done += tensor.size_bytes
    if len(groups) != shards:
        raise ValueError(f"{len(found)} tensors make {len(groups)} shards, not {shards}: ask for more MiB per shard")
    return groups


def safetensors(group: tuple[Tensor, ...] | list[Tensor], seed: str) -> bytes:
    """Return the bytes of one safetensors file."""
    header: dict[str, object] = {"__metadata__": {"format": "pt"}}
    end = 0
    for tensor in group:
        start, end = end, end + tensor.size_bytes
        header[tensor.name] = {"dtype": tensor.dtype, "shape": list(tensor.shape), "data_offsets": [start, end]}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + _noise(seed, end)


def _noise(seed: str, size_bytes: int) -> bytes:
    return hashlib.shake_128(f"{_SEED} {seed}".encode()).digest(size_bytes)


def _config(shape: Shape) -> dict[str, object]:
    return {
        "architectures": ["DemoMoeForCausalLM"],
        "model_type": "demo_moe",
        "dtype": "bfloat16",
        "vocab_size": shape.vocabulary,
        "hidden_size": shape.hidden,
        "intermediate_size": min(shape.inner, 2 * shape.hidden),
        "moe_intermediate_size": shape.inner,
        "num_hidden_layers": shape.layers,
        "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.heads,
        "kv_lora_rank": shape.latent,
        "qk_nope_head_dim": shape.hidden // shape.heads,
        "qk_rope_head_dim": 16,
        "v_head_dim": shape.hidden // shape.heads,
        "n_routed_experts": shape.experts,
        "n_shared_experts": 1,
        "num_experts_per_tok": 2,
        "first_k_dense_replace": 1,
        "max_position_embeddings": 4096,
        "tie_word_embeddings": False,
        "quantization_config": {"quant_method": "compressed-tensors", "format": "mxfp4-pack-quantized"},
    }


def _tokenizer() -> dict[str, object]:
    words = (
        "<s> </s> a boot cache every expert fast GPU is its kernel node of one pins rank shard share the to warm weight"
    )
    return {
        "version": "1.0",
        "added_tokens": [],
        "pre_tokenizer": {"type": "Whitespace"},
        "model": {"type": "WordLevel", "unk_token": "a", "vocab": {w: i for i, w in enumerate(words.split())}},
    }
