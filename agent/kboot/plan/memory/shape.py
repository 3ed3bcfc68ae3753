"""What does config.json say of a model that memory depends on: layers, attention, numbers of heads and experts?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from kboot.plan.memory.kinds import BOTH, CONV, FULL, LINEAR, MAMBA, NOTHING, SLIDING, layer_kinds, numbers_in
from kboot.values import dataclass


@dataclass(frozen=True, slots=True)
class Mla:
    """Latent attention: one vector a token, the same for all heads. index_bytes: of a sparse indexer, a token."""

    latent: int
    heads: int
    absorbed: int
    index_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Gqa:
    """Attention with keys and values of its own heads. window: tokens kept; None keeps all.

    beside: the state that the same layer keeps as well (Falcon-H1, Zamba2).
    """

    kv_heads: int
    head_dim: int
    window: int | None = None
    beside: Recurrent | None = None


@dataclass(frozen=True, slots=True)
class Kda:
    """Linear attention: a state a sequence, whatever its length. kernel: width of the short convolution."""

    heads: int
    head_dim: int
    kernel: int


@dataclass(frozen=True, slots=True)
class Recurrent:
    """A state a sequence of another kind (Mamba, gated delta net, short convolution): `numbers` for each of its heads.

    channels, kernel: of the short convolution before it, whose last inputs are kept.
    """

    heads: int
    numbers: int
    channels: int
    kernel: int


@dataclass(frozen=True, slots=True)
class NoCache:
    """A layer that keeps nothing: experts alone, an attention left out, one that reads another layer's cache."""


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


Attention = Mla | Gqa | Kda | Recurrent | Compressed | NoCache | Unknown

_SPARSE_RATIO = 4  # layers of this ratio have an indexer, and overlapping blocks
_MOST = 1 << 40  # of tokens, heads or numbers in anything; what is larger was not meant
_MOST_LAYERS = 10_000
_COMPRESSED_KINDS = ("compressed_sparse_attention", "heavily_compressed_attention", "sliding_attention")


@dataclass(frozen=True, slots=True)
class ModelShape:
    """The language model of a config.json; None where it does not say.

    attention: of each decoder layer. heads: of queries. dtype: of unquantised weights, as the engine will use them.
    quantization: format of the others ("mxfp4-pack-quantized", "fp8").
    """

    model_type: str = ""
    layers: int | None = None
    heads: int | None = None
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
    text = _language_model(config)
    layers = _whole(text, "num_hidden_layers", "n_layer", "n_layers", "num_layers", most=_MOST_LAYERS)
    return ModelShape(
        model_type=str(config.get("model_type", "")),
        layers=layers,
        heads=_whole(text, *_HEADS),
        dtype=_dtype(text),
        attention=_attention(text, layers or 0),
        experts=_whole(text, "n_routed_experts", "num_experts", "num_local_experts", "moe_num_experts"),
        max_context_tokens=_context(text),
        tied_embeddings=text.get("tie_word_embeddings") is True,
        quantization=_quantization(text.get("quantization_config") or config.get("compression_config")),
    )


_HEADS = ("num_attention_heads", "n_head", "n_heads")
_MAMBA_HEADS = ("mamba_num_heads", "mamba_n_heads", "n_mamba_heads")
_KV_HEADS = (
    "num_key_value_heads",
    "num_kv_heads",
    "n_head_kv",
    "kv_n_heads",
    "multi_query_group_num",
    "num_attention_groups",
)
_LENGTHS = ("max_position_embeddings", "n_positions", "max_seq_len", "seq_length", "max_sequence_length")
_UNSCALED = ("su", "longrope", "llama3")  # whose max_position_embeddings is the scaled length already


def _language_model(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the values of the language model, those of its own parts (DBRX's attn_config) among them."""
    found = config
    for name in ("thinker_config", "text_config", "llm_config", "language_config"):
        if isinstance(nested := found.get(name), dict) and nested:
            found = {**found, **nested}
    parts = (found.get(name) for name in ("attn_config", "ffn_config"))
    return {name: value for part in parts if isinstance(part, dict) for name, value in part.items()} | dict(found)


def _context(text: Mapping[str, Any]) -> int | None:
    """Return the longest sequence that vLLM serves unasked: what was trained, times what RoPE is stretched by."""
    if length := _whole(text, "model_max_length"):
        return length
    length = min((n for name in _LENGTHS if (n := _whole(text, name))), default=None)
    scaling = text.get("rope_parameters") or text.get("rope_scaling")
    if length is None or not isinstance(scaling, dict) or str(text.get("model_type", "")).startswith("gemma3"):
        return length
    of_kinds = [part for part in scaling.values() if isinstance(part, dict)]  # by kind of layer
    return max(_stretched(part, length) for part in of_kinds or [scaling])


def _stretched(scaling: Mapping[str, Any], length: int) -> int:
    kind, factor = scaling.get("rope_type") or scaling.get("type"), scaling.get("factor")
    if kind in _UNSCALED or not isinstance(factor, int | float) or not 0 < factor < 1e6:
        return length
    trained = _whole(scaling, "original_max_position_embeddings") if kind == "yarn" else None
    return int((trained or length) * factor)


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
        kda_layers = numbers_in(linear.get("kda_layers"))
        state = _kda(linear)
        return tuple(state if number + 1 in kda_layers else full for number in range(layers))
    blocks = text.get("block_configs")
    if isinstance(blocks, list) and len(blocks) >= layers and isinstance(full, Gqa):
        return tuple(_of_block(block, full, text) for block in blocks[:layers])
    own = _cached(text, layers)
    return tuple(
        _of_kind(kind, _of_layer(full, text, number), text) if number < own else NoCache()
        for number, kind in enumerate(layer_kinds(text, layers))
    )


def _cached(text: Mapping[str, Any], layers: int) -> int:
    """Return how many layers have a cache of their own; Gemma's last ones read that of others."""
    return layers - (_whole(text, "num_kv_shared_layers") or 0)


def _of_layer(full: Attention, text: Mapping[str, Any], number: int) -> Attention:
    """Return full attention with the key and value heads that a list has for this layer."""
    listed = next((text[name] for name in _KV_HEADS if isinstance(text.get(name), list)), ())
    if not listed or not isinstance(full, Gqa):
        return full
    heads = listed[number] if number < len(listed) else None
    return Gqa(heads, full.head_dim) if isinstance(heads, int) and 0 < heads < _MOST else NoCache()


def _of_block(block: object, full: Gqa, text: Mapping[str, Any]) -> Attention:
    """Return the attention of one of Nemotron-NAS's blocks: query heads by key and value head, or none at all."""
    attention = block.get("attention") if isinstance(block, dict) else None
    if not isinstance(attention, dict):
        return Unknown("block_configs does not say what attention a layer has")
    heads, group = _whole(text, *_HEADS), _whole(attention, "n_heads_in_group")
    return Gqa(heads // group, full.head_dim) if heads and group else NoCache()


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
    heads = _whole(text, *_HEADS)
    if heads is None:
        return Unknown("config.json does not say how many heads there are")
    if latent := _whole(text, "kv_lora_rank"):
        nope, value = _whole(text, "qk_nope_head_dim") or 0, _whole(text, "v_head_dim") or 0
        index = _whole(text, "index_head_dim") or 0
        # FP8 keys and one F32 scale for each block of 128: vLLM's DeepSeek V3.2 indexer cache
        index_bytes = index + 4 * -(-index // 128)
        return Mla(latent + (_whole(text, "qk_rope_head_dim") or 0), heads, (nope + value) * latent, index_bytes)
    width = _whole(text, "head_dim", "attention_head_dim", "kv_channels")
    width = width or (_whole(text, "hidden_size", "n_embd", "d_model") or 0) // heads
    if not width:
        return Unknown("config.json does not say how wide a head is")
    if text.get("multi_query") is True and not text.get("new_decoder_architecture"):  # Falcon, StarCoder
        return Gqa(1, width)
    return Gqa(_whole(text, *_KV_HEADS) or heads, width)


def _of_kind(kind: str, full: Attention, text: Mapping[str, Any]) -> Attention:
    if kind in (FULL, "attention"):
        return _global(full, text)
    if kind in (SLIDING, "chunked_attention"):
        return _windowed(full, text)
    if kind in (NOTHING, "moe"):
        return NoCache()
    if kind == BOTH and isinstance(full, Gqa) and (state := _state(MAMBA, text)):
        return replace(full, beside=state)
    return _state(kind, text) or Unknown(f"it has layers of kind {kind[:60]!r}, whose state is not known")


def _global(full: Attention, text: Mapping[str, Any]) -> Attention:
    """Return the attention of layers that keep all tokens; Gemma 4's have other heads than those with a window."""
    if not isinstance(full, Gqa):
        return full
    heads = _whole(text, "num_global_key_value_heads") or full.kv_heads
    return Gqa(heads, _whole(text, "global_head_dim") or full.head_dim)


def _windowed(full: Attention, text: Mapping[str, Any]) -> Attention:
    window = _whole(text, "sliding_window", "attention_chunk_size")
    if not isinstance(full, Gqa) or window is None:
        return full
    heads = _whole(text, "swa_num_key_value_heads") or full.kv_heads
    return Gqa(heads, _whole(text, "swa_head_dim") or full.head_dim, window)


def _state(kind: str, text: Mapping[str, Any]) -> Recurrent | None:
    """Return the state of a layer after vLLM's MambaStateShapeCalculator; None where its numbers are not given."""
    if kind == CONV:
        channels, kernel = _whole(text, "hidden_size"), _whole(text, "conv_L_cache")
        return Recurrent(0, 0, channels, kernel) if channels and kernel else None
    if kind == LINEAR:
        heads, keys = _whole(text, "linear_num_value_heads"), _whole(text, "linear_num_key_heads")
        width, key = _whole(text, "linear_value_head_dim"), _whole(text, "linear_key_head_dim")
        if not (heads and keys and width and key):
            return None
        return Recurrent(
            heads, width * key, 2 * keys * key + heads * width, _whole(text, "linear_conv_kernel_dim") or 4
        )
    if kind != MAMBA:
        return None
    kernel = _whole(text, "conv_kernel", "mamba_d_conv") or 4
    heads, state = _whole(text, *_MAMBA_HEADS), _whole(text, "ssm_state_size", "mamba_d_state")
    inner = _whole(text, "mamba_d_ssm") or (_whole(text, "mamba_expand") or 0) * (_whole(text, "hidden_size") or 0)
    width = _whole(text, "mamba_head_dim", "mamba_d_head", "mamba_headdim") or (inner // heads if heads else 0)
    if heads and width and state:
        groups = _whole(text, "n_groups", "mamba_n_groups", "mamba_ngroups") or 1
        return Recurrent(heads, width * state, heads * width + 2 * groups * state, kernel)
    return Recurrent(inner, state, inner, kernel) if inner and state else None


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


def _whole(values: Mapping[str, Any], *names: str, most: int = _MOST) -> int | None:
    found = (values.get(name) for name in names)
    return next((n for n in found if isinstance(n, int) and not isinstance(n, bool) and 0 < n <= most), None)
