"""Of which kind is each decoder layer, where a config.json has layers that differ? Every family says so in its own way.

A kind that is not known here has a name all the same: what it keeps is then unknown, never nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

FULL, SLIDING, MAMBA, LINEAR, CONV, NOTHING, BOTH = (
    "full_attention",
    "sliding_attention",
    "mamba",
    "linear_attention",
    "conv",
    "mlp",
    "hybrid",  # attention and a state in one layer
)

_LISTS = ("layer_types", "layers_block_type")
_LETTERS = {"M": MAMBA, "*": FULL, "-": NOTHING, "E": NOTHING}  # of NemotronH; E: experts
# Which layers are of a kind, and what the others are: Bamba, LFM2, Zamba2.
_INDICES = (
    ("attn_layer_indices", FULL, MAMBA),
    ("full_attn_idxs", FULL, CONV),
    ("hybrid_layer_ids", BOTH, MAMBA),
)
_STATES = ("mamba_", "ssm_", "linear_num_", "linear_conv_", "attn_type_list", "conv_L_cache", "lru_width", "rwkv")

# One layer in so many keeps all tokens, the others a window, where the configuration has no pattern of its own: the
# defaults of transformers' classes.
_EVERY = {
    "cohere2": 4,
    "exaone4": 4,
    "gemma2": 2,
    "gemma3": 6,
    "gemma3_text": 6,
    "gemma3n": 5,
    "gemma3n_text": 5,
    "gpt_oss": 2,
    "olmo3": 4,
}
# Every layer has the window. Of a family that is not known, all layers are taken to keep all tokens.
_UNIFORM = ("mistral", "mixtral", "phi3", "phimoe", "starcoder2", "ministral")


def layer_kinds(text: Mapping[str, Any], layers: int) -> list[str]:
    """Return the kind of each layer; all FULL where nothing says that they differ."""
    for listed in (text.get(name) for name in _LISTS):
        if isinstance(listed, list) and len(listed) >= layers:
            return [str(kind) for kind in listed[:layers]]
    pattern = text.get("hybrid_override_pattern")
    if isinstance(pattern, str) and len(pattern) >= layers:
        return [_LETTERS.get(letter, letter) for letter in pattern[:layers]]
    return _by_place(text, layers) or _by_state(text, layers) or _by_window(text, layers)


def numbers_in(listed: object) -> frozenset[int]:
    """Return the numbers of a list, which may hold anything, or be none."""
    return (
        frozenset(number for number in listed if isinstance(number, int)) if isinstance(listed, list) else frozenset()
    )


def _by_place(text: Mapping[str, Any], layers: int) -> list[str]:
    """Attention in layers of some numbers or in all, a state in the others."""
    for name, these, others in _INDICES:
        if isinstance(listed := text.get(name), list):
            places = numbers_in(listed)
            return [these if number in places else others for number in range(layers)]
    if text.get("model_type") == "falcon_h1":
        return [BOTH] * layers
    period, offset, interval = (
        text.get(name) for name in ("attn_layer_period", "attn_layer_offset", "full_attention_interval")
    )
    if isinstance(period, int) and period > 0:  # Jamba
        return [FULL if number % period == (offset or 0) else MAMBA for number in range(layers)]
    if isinstance(interval, int) and interval > 0:  # Qwen3-Next
        return [LINEAR if (number + 1) % interval else FULL for number in range(layers)]
    return []


def _by_state(text: Mapping[str, Any], layers: int) -> list[str]:
    """A model that has states, and nothing says in which layers."""
    named = next((name for name, value in text.items() if name.startswith(_STATES) and value is not None), None)
    return [f"unnamed, with {named}"] * layers if named else []


def _by_window(text: Mapping[str, Any], layers: int) -> list[str]:
    family, mixed = str(text.get("model_type", "")), text.get("hybrid_layer_pattern")
    if isinstance(mixed, list) and len(mixed) >= layers:  # MiMo
        return [SLIDING if flag == 1 else FULL for flag in mixed[:layers]]
    if not text.get("sliding_window"):
        return [FULL] * layers
    if "max_window_layers" in text or "use_sliding_window" in text:  # Qwen: the first layers keep all tokens
        asked = text.get("max_window_layers") if text.get("use_sliding_window") is True else layers
        first = asked if isinstance(asked, int) else layers
        return [FULL if number < first else SLIDING for number in range(layers)]
    pattern = text.get("sliding_window_pattern") or _EVERY.get(family, 0)
    if isinstance(pattern, str):  # "LLLG"
        return [SLIDING if pattern[number % len(pattern)] == "L" else FULL for number in range(layers)]
    if isinstance(pattern, int) and pattern > 0:
        return [SLIDING if (number + 1) % pattern else FULL for number in range(layers)]
    return [SLIDING if family in _UNIFORM else FULL] * layers
