"""Which tensors does a checkpoint hold, and what is each of them for? Read from safetensors headers alone."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from enum import StrEnum

from kboot.errors import FactMissing
from kboot.values import dataclass


class Part(StrEnum):
    """What a tensor is for, as the sum shows it."""

    EXPERTS = "routed experts"
    SHARED = "shared experts"
    LATENT = "latent projections"
    ROUTER = "routers"
    ATTENTION = "attention"
    LINEAR_ATTENTION = "linear attention"
    DENSE = "dense MLP"
    EMBEDDING = "embedding"
    HEAD = "output head"
    NORM = "norms"
    VISION = "vision"
    MTP = "MTP layers"
    ABSORBED = "absorbed MLA copies"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class TensorGroup:
    """Tensors that differ in nothing but the expert they belong to; one tensor where there is no expert.

    name: with "*" for the expert's number. experts: the numbers; () for a tensor that is alone.
    size_bytes: of one tensor, as stored.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    size_bytes: int
    experts: tuple[int, ...] = ()

    @property
    def stored_bytes(self) -> int:
        """Size of all of them."""
        return self.size_bytes * max(1, len(self.experts))

    @property
    def elements(self) -> int:
        """Elements of one."""
        return math.prod(self.shape)

    @property
    def layer(self) -> int | None:
        """Number of the decoder layer; None outside of them."""
        found = None if _VISION.search(self.name) else _LAYER.search(self.name)
        return int(found[1]) if found else None

    @property
    def module(self) -> str:
        """Name of the projection it belongs to: "q_b_proj" of "….q_b_proj.weight_scale_inv"."""
        words = self.name.split(".")
        return words[-2] if len(words) > 1 and _LEAF.fullmatch(words[-1]) else words[-1]

    @property
    def leaf(self) -> str:
        """The last word of the name: "weight", "weight_scale_inv"."""
        return self.name.rpartition(".")[2]


class HeaderNotValid(ValueError):
    """A header is not what a safetensors file begins with, or does not describe the file's data."""


_MOST_NAME_BYTES = 1024
_MOST_SHAPE_BYTES = 256
_MOST_BYTES = 10**18

# Each entry as every known writer prints it: name, dtype and shape, offsets. What differs is left to the JSON parser.
# Bounded: Python turns no number of more than 4,300 digits into one.
_ENTRY = re.compile(
    rb'(?<=[{,])"([^"\\]{1,1024})":\{"dtype":"(\w+","shape":\[[\d,]{0,256})\],"data_offsets":\[(\d{1,18},\d{1,18})\]\}',
)
_Entry = tuple[bytes, bytes, bytes]


def entries_of(header: bytes) -> Sequence[_Entry]:
    """Return name, dtype with shape, and offsets of every tensor of a header, as its text has them.

    Raises:
        HeaderNotValid: it is no such header.
    """
    entries: Sequence[_Entry] = _ENTRY.findall(header)
    if not entries or len(entries) != header.count(b'"data_offsets"'):
        return _parsed(header)
    return entries


@dataclass(slots=True)
class Gatherer:
    """Collects tensors from one header after the other; a layer's experts may lie in several files.

    A checkpoint of half a million expert tensors has 75 MB of headers: they are scanned, not parsed, and their
    tensors counted where they are equal.
    """

    tensors: int = 0
    data_bytes: int = 0
    _found: dict[tuple[bytes, bytes, bytes], tuple[int, list[bytes]]] = field(default_factory=dict)

    def add(self, header: bytes, data_bytes: int) -> None:
        """Take the JSON part of one header. data_bytes: size of the file without its header.

        Raises:
            HeaderNotValid: it is no such header, or its tensors do not sum to the data.
        """
        entries = entries_of(header)
        found, here = self._found, 0
        for name, kind, offsets in entries:
            head, mark, tail = name.partition(b".experts.")
            number, dot, rest = tail.partition(b".")
            if not (mark and dot and number.isdigit()):
                head, number, rest = name, b"", b""
            key = (head, rest, kind)
            known = found.get(key)
            if known is None:
                start, _, end = offsets.partition(b",")
                size = int(end) - int(start)
                found[key] = (size, [number])
            else:
                size = known[0]
                known[1].append(number)
            here += size
        if here != data_bytes:
            raise HeaderNotValid(f"its tensors take {here:,} bytes, the file has {data_bytes:,} of data")
        self.tensors += len(entries)
        self.data_bytes += data_bytes

    def groups(self) -> tuple[TensorGroup, ...]:
        """Return everything collected so far, by name."""
        return tuple(sorted(map(_group, self._found.items()), key=lambda g: (g.name, g.dtype, g.shape)))


def read_tensors(headers: Iterable[tuple[str, bytes, int]]) -> tuple[TensorGroup, ...]:
    """Return the tensors of several headers. headers: (file, JSON part of its header, size of the data behind it).

    Raises:
        FactMissing: one of them is no header, or does not fit its file.
    """
    gatherer = Gatherer()
    for path, header, data_bytes in headers:
        try:
            gatherer.add(header, data_bytes)
        except HeaderNotValid as exc:
            hint = "see with `kboot verify --mode quick` what is wrong with it"
            raise FactMissing("header-not-valid", f"{path}: {exc}", hint=hint) from exc
    return gatherer.groups()


def linear_layers(groups: Iterable[TensorGroup]) -> frozenset[int]:
    """Return the layers whose attention keeps a state instead of a cache: those with a decay of their own."""
    found = (g.layer for g in groups if g.leaf in ("A_log", "dt_bias"))
    return frozenset(layer for layer in found if layer is not None)


def part_of(group: TensorGroup, layers: int | None, linear: frozenset[int]) -> Part:
    """Return what a tensor is for. layers: decoder layers of the model, those beyond are for speculation (MTP)."""
    name, layer = group.name, group.layer
    if _VISION.search(name):
        return Part.VISION
    if _MTP.search(name) or (layers is not None and layer is not None and layer >= layers):
        return Part.MTP
    for part, pattern in _PARTS:
        if pattern.search(name):
            if part is Part.ATTENTION and layer in linear:
                return Part.LINEAR_ATTENTION
            return part
    return Part.OTHER


def _group(item: tuple[tuple[bytes, bytes, bytes], tuple[int, list[bytes]]]) -> TensorGroup:
    (head, rest, kind), (size, numbers) = item
    dtype, _, shape = kind.partition(b'","shape":[')
    expert = numbers[0] != b""
    return TensorGroup(
        name=(head + b".experts.*." + rest if expert else head).decode("utf-8", "replace"),
        dtype=dtype.decode(),
        shape=tuple(int(n) for n in shape.split(b",") if n),
        size_bytes=size,
        experts=tuple(sorted(map(int, numbers))) if expert else (),
    )


def _parsed(header: bytes) -> list[_Entry]:
    """Return the entries of a header that is written in another way; also where a name needs escapes."""
    try:
        document = json.loads(header)
        if not isinstance(document, dict):
            raise TypeError("not an object")
        return [_entry(name, entry) for name, entry in document.items() if name != "__metadata__"]
    except (ValueError, TypeError, KeyError, RecursionError) as exc:
        raise HeaderNotValid(f"not a safetensors header: {exc}") from exc


def _entry(name: str, entry: Mapping[str, object]) -> _Entry:
    dtype, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    if not (isinstance(dtype, str) and isinstance(shape, list) and isinstance(offsets, list) and len(offsets) == 2):
        raise TypeError(f"tensor {name!r} has no valid dtype, shape and offsets")
    numbers = [*shape, *offsets]
    if not all(type(n) is int and n >= 0 for n in numbers) or offsets[0] > offsets[1] or offsets[1] >= _MOST_BYTES:
        raise TypeError(f"tensor {name!r} has a size that is no size")
    words = ",".join(map(str, shape))
    if len(words) > _MOST_SHAPE_BYTES or len(name.encode()) > _MOST_NAME_BYTES:
        raise TypeError(f"tensor {name[:40]!r}… has a name or a shape that is too long")
    return name.encode(), f'{dtype}","shape":[{words}'.encode(), f"{offsets[0]},{offsets[1]}".encode()


_VISION = re.compile(r"(?:^|\.)(?:vision\w*|visual|mm_projector|multi_modal_projector|image_newline|audio\w*)\b")
_MTP = re.compile(r"(?:^|\.)(?:mtp\w*|nextn\w*)\.")
_LAYER = re.compile(r"(?:^|\.)(?:layers|h|blocks)\.(\d+)\.")
_LEAF = re.compile(
    r"weight|bias|scale|qweight|qzeros|scales|g_idx|qscale_act|ape|norm|"
    r"(?:weight|input|output|activation)_\w+|e_score_correction_bias|tid2eid"
)
_PARTS: tuple[tuple[Part, re.Pattern[str]], ...] = (
    (Part.SHARED, re.compile(r"\.shared_experts?(?:_gate)?\.|\.shared_mlp\.|\.shared_expert_gate\b")),
    (Part.LATENT, re.compile(r"\.routed_expert_(?:down|up)_proj\.|\.(?:fc1|fc2)_latent_proj\.")),
    (Part.EXPERTS, re.compile(r"\.experts?\.")),
    (Part.ROUTER, re.compile(r"\.(?:gate|router|wg)\.|e_score_correction_bias|\.tid2eid")),
    (Part.EMBEDDING, re.compile(r"embed_tokens|(?:^|\.)(?:wte|tok_embeddings|embed|word_embeddings)\.")),
    (Part.HEAD, re.compile(r"(?:^|\.)(?:lm_head|output|head|embed_out)\.")),
    (Part.NORM, re.compile(r"(?:^|[._])(?:norm\w*|\w*layernorm|ln_\w+|\w+_norm)\.(?:weight|bias)$")),
    (Part.ATTENTION, re.compile(r"\.(?:self_attn|attn|attention|self_attention|linear_attn|mixer)\.")),
    (Part.DENSE, re.compile(r"\.(?:mlp|feed_forward|ffn|block_sparse_moe)\.")),
)
