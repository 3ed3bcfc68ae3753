"""What is a model made of, as far as memory goes: which tensors, divided along what, in which layers?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from math import gcd
from typing import Literal

from kboot.plan.memory.shape import Compressed, Gqa, Kda, Mla, ModelShape, Recurrent
from kboot.plan.memory.tensors import Part, TensorGroup, linear_layers, part_of
from kboot.values import dataclass

_FLOATS = frozenset({"F64", "F32", "F16", "BF16"})
_WIDTH: Mapping[str, int] = {"bfloat16": 2, "float16": 2, "half": 2}

_BY_OUTPUT = frozenset(
    {
        *("q_proj", "k_proj", "v_proj", "qkv_proj", "qkv", "query_key_value", "W_pack", "Wqkv", "wq_b", "wo_a"),
        *("q_b_proj", "kv_b_proj", "g_proj", "g_b_proj", "f_b_proj", "b_proj", "in_proj", "in_proj_qkvz"),
        *("gate_proj", "up_proj", "gate_up_proj", "w1", "w3", "w13", "c_fc", "dense_h_to_4h"),
        *("q_conv1d", "k_conv1d", "v_conv1d", "conv1d", "dt_bias", "sinks", "attn_sink"),
    }
)
_BY_INPUT = frozenset({"o_proj", "wo", "wo_b", "out_proj", "down_proj", "w2", "c_proj", "dense", "dense_4h_to_h"})
_TURNED = frozenset({"qweight", "qzeros", "scales"})  # GPTQ and AWQ keep inputs first

Over = Literal["whole", "attention", "kv heads", "dense", "shared", "expert", "stacked", "embedding", "head"]
"""Which ranks divide a tensor. stacked: a layer's experts in one tensor, so experts are its first dimension."""


@dataclass(frozen=True, slots=True)
class Piece:
    """One tensor, or equal ones of several experts. size_bytes: of one, as the engine holds it.

    length: of the dimension that is divided; 0 where none is. experts: numbers; () where it belongs to none.
    kv_heads: of keys and values, where there are any.
    """

    part: Part
    over: Over
    size_bytes: int
    length: int
    experts: tuple[int, ...] = ()
    kv_heads: int = 0


@dataclass(frozen=True, slots=True)
class Model:
    """A checkpoint as engines load it.

    kinds: layers that differ. layers: the kind of each decoder layer. outside: what belongs to no layer, or to layers
    for speculation (part MTP). experts: of a layer. stored_bytes: of all tensors in the files, by purpose.
    """

    shape: ModelShape
    kinds: tuple[tuple[Piece, ...], ...]
    layers: tuple[int, ...]
    outside: tuple[Piece, ...]
    experts: int
    stored: Mapping[Part, int]

    @property
    def stored_bytes(self) -> int:
        """Size of all tensors in the files."""
        return sum(self.stored.values())

    @property
    def heads(self) -> int:
        """The number that a tensor-parallel degree must divide; 0 where it is not known."""
        counts = set()
        for attention in self.shape.attention:
            match attention:
                case Mla(heads=heads) | Kda(heads=heads) | Recurrent(heads=heads) | Compressed(heads=heads):
                    counts.add(heads)
                case Gqa(beside=beside):
                    counts |= {self.shape.heads or 0, beside.heads if beside else 0}
        return gcd(*counts) or self.shape.heads or 0


def model_of(groups: Sequence[TensorGroup], shape: ModelShape) -> Model:
    """Return the model that these tensors are."""
    linear = linear_layers(groups)
    count = shape.layers or 1 + max((g.layer for g in groups if g.layer is not None), default=-1)
    width = _cast_width(groups, shape)
    of_layer: list[list[Piece]] = [[] for _ in range(count)]
    outside: list[Piece] = []
    stored: dict[Part, int] = {}
    for group in groups:
        part, layer = part_of(group, count, linear), group.layer
        rule = part_of(group, None, linear) if part is Part.MTP else part
        piece = replace(_piece(group, rule, width), part=part)
        if piece.over == "kv heads":
            piece = replace(piece, kv_heads=shape.kv_heads or 0)
        stored[part] = stored.get(part, 0) + group.stored_bytes
        (of_layer[layer] if layer is not None and layer < count else outside).append(piece)
    for layer, copies in _absorbed(groups, shape):
        of_layer[layer].append(copies)
    number: dict[tuple[Piece, ...], int] = {}
    layers = tuple(number.setdefault(tuple(pieces), len(number)) for pieces in of_layer)
    return Model(
        shape=shape,
        kinds=tuple(number),
        layers=layers,
        outside=tuple(outside),
        experts=shape.experts or 1 + max((g.experts[-1] for g in groups if g.experts), default=0),
        stored={part: stored[part] for part in Part if part in stored},
    )


def _cast_width(groups: Iterable[TensorGroup], shape: ModelShape) -> int | None:
    """Return the bytes an element takes in the engine where a checkpoint is wholly F32; None: as stored.

    F32 tensors among others (routing corrections, decays) are F32 on purpose and stay so.
    """
    return _WIDTH.get(shape.dtype or "") if {g.dtype for g in groups} == {"F32"} else None


def _piece(group: TensorGroup, rule: Part, width: int | None) -> Piece:
    size = group.size_bytes if width is None else group.elements * width
    match rule:
        case Part.EXPERTS:
            if not group.experts:
                stacked = len(group.shape) > 1
                return Piece(rule, "stacked" if stacked else "whole", size, group.shape[0] if stacked else 0)
            return Piece(rule, "expert", size, _divided(group), group.experts)
        case Part.SHARED:
            return _projection(rule, "shared", group, size)
        case Part.DENSE:
            return _projection(rule, "dense", group, size)
        case Part.ATTENTION if group.module in ("k_proj", "v_proj"):
            return _projection(rule, "kv heads", group, size)
        case Part.ATTENTION | Part.LINEAR_ATTENTION if ".indexer." not in group.name:
            return _projection(rule, "attention", group, size)
        case Part.EMBEDDING if len(group.shape) > 1:
            return Piece(rule, "embedding", size, group.shape[0])
        case Part.HEAD if group.shape:
            return Piece(rule, "head", size, group.shape[0])
        case _:
            return Piece(rule, "whole", size, 0)


def _projection(part: Part, over: Over, group: TensorGroup, size: int) -> Piece:
    length = _divided(group)
    return Piece(part, over if length else "whole", size, length)


def _divided(group: TensorGroup) -> int:
    """Return the length of the dimension that tensor parallelism divides in a weight, bias or scale; 0: none."""
    shape = group.shape
    by_output, by_input = group.module in _BY_OUTPUT, group.module in _BY_INPUT
    if group.leaf in _TURNED and len(shape) > 1:
        by_output, by_input = by_input, by_output
    if by_output and shape:
        return shape[0]
    return shape[1] if by_input and len(shape) > 1 else 0


def _absorbed(groups: Iterable[TensorGroup], shape: ModelShape) -> Iterable[tuple[int, Piece]]:
    """Return the bf16 copies of a quantised kv_b_proj that engines keep for decoding (W_UK and W_UV in vLLM's MLA)."""
    projections = (g for g in groups if g.module == "kv_b_proj" and g.leaf in ("weight", "weight_packed", "qweight"))
    quantised = {g.layer for g in projections if g.dtype not in _FLOATS}
    for layer, attention in enumerate(shape.attention):
        if isinstance(attention, Mla) and layer in quantised:
            yield layer, Piece(Part.ABSORBED, "attention", 2 * attention.heads * attention.absorbed, attention.heads)
