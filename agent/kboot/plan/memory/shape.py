"""What does config.json say of a model that memory depends on: layers, attention, numbers of heads and experts?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Mla:
    """Latent attention: one vector a token, the same for all heads. index_bytes: of a sparse indexer, a token."""

    latent: int
    heads: int
    absorbed: int
    index_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Gqa:
    """Attention with keys and values of its own heads. window: tokens kept; None keeps all."""

    kv_heads: int
    head_dim: int
    window: int | None = None


@dataclass(frozen=True, slots=True)
class Kda:
    """Linear attention: a state a sequence, whatever its length. kernel: width of the short convolution."""

    heads: int
    head_dim: int
    kernel: int


@dataclass(frozen=True, slots=True)
class Compressed:
    """DeepSeek V4's: one vector for each `ratio` tokens, and the last `window` tokens one by one; ratio 0: those alone.

    The vector is the same for all heads: width numbers, the last rope of them in bf16. index: width of the indexer's
    keys in layers that have one; 0 in others.
    """

    ratio: int
    heads: int
    width: int
    rope: int
    window: int
    index: int = 0


@dataclass(frozen=True, slots=True)
class Unknown:
    """Attention whose cache this version cannot compute."""

    why: str


Attention = Mla | Gqa | Kda | Compressed | Unknown

_SPARSE_RATIO = 4  # layers of this ratio have an indexer, and overlapping blocks
_COMPRESSED_KINDS = ("compressed_sparse_attention", "heavily_compressed_attention", "sliding_attention")


@dataclass(frozen=True, slots=True)
class ModelShape:
    """The language model of a config.json; None where it does not say.

    attention: of each decoder layer. dtype: of unquantised weights, as the engine will use them.
    quantization: format of the others ("mxfp4-pack-quantized", "fp8").
    """

    model_type: str = ""
    layers: int | None = None
    dtype: str | None = None
    attention: tuple[Attention, ...] = ()
    experts: int | None = None
    max_context_tokens: int | None = None
    tied_embeddings: bool = False
    quantization: str = ""

    @property
    def kv_heads(self) -> int | None:
        """Key and value heads, for tensor parallelism wider than them; None without such heads."""
        return max((a.kv_heads for a in self.attention if isinstance(a, Gqa)), default=None)


def read_shape(config: Mapping[str, Any]) -> ModelShape:
    """Return what a config.json says; a model inside a multimodal wrapper counts as the model."""
    nested = config.get("text_config") or config.get("llm_config") or config.get("language_config")
    text: Mapping[str, Any] = {**config, **nested} if isinstance(nested, dict) else config
    layers = _whole(text, "num_hidden_layers", "n_layer", "n_layers")
    return ModelShape(
        model_type=str(config.get("model_type", "")),
        layers=layers,
        dtype=_dtype(text),
        attention=_attention(text, layers or 0),
        experts=_whole(text, "n_routed_experts", "num_experts", "num_local_experts", "moe_num_experts"),
        max_context_tokens=_whole(text, "max_position_embeddings", "model_max_length", "n_positions"),
        tied_embeddings=text.get("tie_word_embeddings") is True,
        quantization=_quantization(text.get("quantization_config") or config.get("compression_config")),
    )


def _quantization(found: object) -> str:
    if not isinstance(found, dict):
        return ""
    return str(found.get("format") or found.get("quant_algo") or found.get("quant_method") or "")


def _attention(text: Mapping[str, Any], layers: int) -> tuple[Attention, ...]:
    if (ratios := _ratios(text, layers)) is not None:
        return tuple(_compressed(ratio, text) for ratio in ratios)
    full = _full_attention(text)
    linear = text.get("linear_attn_config")
    if isinstance(linear, dict):
        kda_layers = linear.get("kda_layers") or []
        state = _kda(linear)
        return tuple(state if number + 1 in kda_layers else full for number in range(layers))
    kinds = text.get("layer_types")
    if isinstance(kinds, list) and len(kinds) == layers:
        return tuple(_of_kind(str(kind), full, text) for kind in kinds)
    window = _whole(text, "sliding_window")
    if window and isinstance(full, Gqa) and text.get("use_sliding_window", True):
        full = Gqa(full.kv_heads, full.head_dim, window)
    return (full,) * layers


def _ratios(text: Mapping[str, Any], layers: int) -> tuple[int, ...] | None:
    """Return over how many tokens each layer compresses, -1 where that is not known; None for other models.

    DeepSeek lists a number a layer (and may list more than there are layers), transformers names kinds of layers.
    """
    rates, kinds = text.get("compress_rates"), text.get("layer_types")
    if isinstance(rates, dict) and isinstance(kinds, list):
        of_kind = {kind: rates.get(kind, 0 if kind == "sliding_attention" else -1) for kind in _COMPRESSED_KINDS}
        listed: object = [of_kind.get(str(kind), -1) for kind in kinds]
    elif "compress_ratios" in text or "compress_ratio" in text:
        listed = text.get("compress_ratios")
    else:
        return None
    if not isinstance(listed, list) or len(listed) < layers or "kv_source_layer_ids" in text:
        return (-1,) * layers  # layers that share another's cache are V4.1's
    return tuple(ratio if isinstance(ratio, int) else -1 for ratio in listed[:layers])


def _compressed(ratio: int, text: Mapping[str, Any]) -> Attention:
    heads, width = _whole(text, "num_attention_heads"), _whole(text, "head_dim")
    rope, window = _whole(text, "qk_rope_head_dim"), _whole(text, "sliding_window", "window_size")
    if ratio not in (0, 1, _SPARSE_RATIO, 128) or not (heads and width and rope and window):
        return Unknown("its compressed attention keeps a cache that this version cannot compute")
    index = (_whole(text, "index_head_dim") or 0) if ratio == _SPARSE_RATIO else 0
    return Compressed(ratio if ratio > 1 else 0, heads, width, rope, window, index)


def _full_attention(text: Mapping[str, Any]) -> Attention:
    heads = _whole(text, "num_attention_heads", "n_head")
    if heads is None:
        return Unknown("config.json does not say how many heads there are")
    if latent := _whole(text, "kv_lora_rank"):
        nope, value = _whole(text, "qk_nope_head_dim") or 0, _whole(text, "v_head_dim") or 0
        index = _whole(text, "index_head_dim") or 0
        # FP8 keys and one F32 scale for each block of 128: vLLM's DeepSeek V3.2 indexer cache
        index_bytes = index + 4 * -(-index // 128)
        return Mla(latent + (_whole(text, "qk_rope_head_dim") or 0), heads, (nope + value) * latent, index_bytes)
    width = _whole(text, "head_dim") or (_whole(text, "hidden_size", "n_embd") or 0) // heads
    if not width:
        return Unknown("config.json does not say how wide a head is")
    return Gqa(_whole(text, "num_key_value_heads", "num_kv_heads") or heads, width)


def _of_kind(kind: str, full: Attention, text: Mapping[str, Any]) -> Attention:
    match kind:
        case "full_attention" | "attention":
            return full
        case "sliding_attention" | "chunked_attention":
            window = _whole(text, "sliding_window", "attention_chunk_size")
            return Gqa(full.kv_heads, full.head_dim, window) if isinstance(full, Gqa) and window else full
        case _:
            return Unknown(f"it has layers of kind {kind!r}, whose state this version cannot compute")


def _kda(linear: Mapping[str, Any]) -> Attention:
    heads, width = _whole(linear, "num_heads"), _whole(linear, "head_dim")
    if heads is None or width is None:
        return Unknown("linear_attn_config does not say how large its state is")
    return Kda(heads, width, _whole(linear, "short_conv_kernel_size") or 4)


def _dtype(text: Mapping[str, Any]) -> str | None:
    """Return the dtype engines compute in; a float32 checkpoint is loaded as bfloat16 by default."""
    named = text.get("torch_dtype") or text.get("dtype")
    if not isinstance(named, str):
        return None
    named = named.removeprefix("torch.")
    return "bfloat16" if named == "float32" else named


def _whole(values: Mapping[str, Any], *names: str) -> int | None:
    found = (values.get(name) for name in names)
    return next((n for n in found if isinstance(n, int) and not isinstance(n, bool) and n > 0), None)
