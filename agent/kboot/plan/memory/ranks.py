"""How many bytes of weights does each rank of a layout hold?

Tensor parallelism divides a projection's outputs or inputs, expert parallelism whole experts, pipeline parallelism
layers. Data parallelism divides nothing but experts: every replica holds the rest again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from kboot.plan.memory.tensors import Part
from kboot.values import dataclass

if TYPE_CHECKING:
    from kboot.plan.memory.model import Model, Piece
    from kboot.profile.types import LayoutAsk

_VOCABULARY_PADDING = 64  # vLLM and SGLang: DEFAULT_VOCAB_PADDING_SIZE in vocab_parallel_embedding.py
_SPECULATIVE = frozenset({"--speculative-config", "-sc", "--speculative-algorithm", "--speculative-algo"})


@dataclass(frozen=True, slots=True)
class Degrees:
    """Over how many ranks each kind of tensor is divided; 1: every rank holds it whole.

    experts: ranks that whole experts are spread over. expert_width: ranks one expert is divided over.
    speculative: layers for speculative decoding are loaded too.
    """

    data: int
    stages: int
    tensor: int
    experts: int
    expert_width: int
    dense: int
    shared: int
    embedding: int
    head: int
    speculative: bool = False

    @property
    def members(self) -> int:
        """Ranks of one stage."""
        return self.data * self.tensor

    @property
    def words(self) -> str:
        """ "DP8+EP", "TP8 PP4+EP", "TP8"."""
        named = (("DP", self.data), ("TP", self.tensor), ("PP", self.stages))
        words = " ".join(f"{name}{degree}" for name, degree in named if degree > 1) or "one rank"
        return f"{words}+EP" if self.experts > 1 else words


@dataclass(frozen=True, slots=True)
class RankBytes:
    """The weights of one rank by purpose. stage: of the pipeline. member: among the ranks of its stage."""

    stage: int
    member: int
    parts: Mapping[Part, int]

    @property
    def total_bytes(self) -> int:
        """All of them."""
        return sum(self.parts.values())


def degrees_of(layout: LayoutAsk, model_type: str = "") -> Degrees:
    """Return how the layout's engine divides tensors.

    vLLM divides one copy of each expert over data × tensor ranks, with or without expert parallelism. With both
    parallelisms its MoE is sequence-parallel: each tensor rank then holds the shared experts whole (DeepSeek V2-V3.2:
    use_sequence_parallel_moe in config/parallel.py; Kimi K3: models/kimi_k3/nvidia/model.py, the dense layer too).
    SGLang puts data-parallel attention inside the tensor group, with a whole embedding on each rank.
    """
    parallel = layout.parallel
    data, tensor, spread = parallel.data, parallel.tensor, parallel.expert
    everyone = data * tensor
    whole_shared = whole_dense = False
    dense, embedding, head, expert_width = tensor, tensor, tensor, everyone
    if layout.engine == "sglang":
        inside = spread and data > 1
        dense = head = everyone if inside else tensor
        embedding = 1 if inside else tensor
        expert_width = tensor
        whole_shared = inside and flag_value(layout.args, "--moe-a2a-backend") not in (None, "none")
    elif spread and data > 1 and tensor > 1:
        whole_shared, whole_dense = _sequence_parallel(layout, model_type)
    return Degrees(
        data=data,
        stages=parallel.pipeline,
        tensor=tensor,
        experts=everyone if spread else 1,
        expert_width=1 if spread else expert_width,
        dense=1 if whole_dense else dense,
        shared=1 if whole_shared else dense,
        embedding=embedding,
        head=head,
        speculative=any(arg.partition("=")[0] in _SPECULATIVE for arg in layout.args),
    )


def flag_value(args: Sequence[str], *names: str) -> str | None:
    """Return the value a flag has on a command line, in either spelling; None where it is not there."""
    for at, arg in enumerate(args):
        name, joined, value = arg.partition("=")
        if name in names:
            return value if joined else (args[at + 1] if at + 1 < len(args) else "")
    return None


def rank_bytes(model: Model, degrees: Degrees) -> tuple[RankBytes, ...]:
    """Return the weights of every rank, stage by stage."""
    spread = _Spread(model.experts, degrees)
    kinds = [spread.sum(pieces) for pieces in model.kinds]
    found: list[RankBytes] = []
    at = 0
    for stage, count in enumerate(pipeline_layers(len(model.layers), degrees.stages)):
        total = _Sum(Counter(), [0] * degrees.members)
        for kind, times in Counter(model.layers[at : at + count]).items():
            total.add(kinds[kind], times)
        total.add(spread.sum(_outside(model, degrees, stage)), 1)
        at += count
        found += [RankBytes(stage, member, total.of(member)) for member in range(degrees.members)]
    return tuple(found)


def pipeline_layers(layers: int, stages: int) -> list[int]:
    """Return the layers of each stage; what does not divide goes to the stages before the last, as in vLLM."""
    counts = [layers // stages] * stages
    for i in range(layers % stages):
        counts[-(i + 2)] += 1
    return counts


def _sequence_parallel(layout: LayoutAsk, model_type: str) -> tuple[bool, bool]:
    """Return whether shared experts and dense layers stand whole on each tensor rank."""
    if not model_type.startswith("kimi_k3"):
        return True, False
    if layout.parallel.pipeline > 1:
        return False, False
    asked = layout.env.get("VLLM_KIMI_K3_SHARD_SP_SHARED_EXPERT", "0") not in ("", "0")
    mega = flag_value(layout.args, "--moe-backend") == "deep_gemm_mega_moe"
    may_divide = mega or flag_value(layout.args, "--all2all-backend") == "deepep_v2"
    return not (asked and may_divide), not asked


@dataclass(slots=True)
class _Sum:
    """common: on every rank of a stage. experts: on each."""

    common: Counter[Part]
    experts: list[int]

    def add(self, other: _Sum, times: int) -> None:
        for part, size in other.common.items():
            self.common[part] += size * times
        for member, size in enumerate(other.experts):
            self.experts[member] += size * times

    def of(self, member: int) -> Mapping[Part, int]:
        parts = Counter(self.common)
        parts[Part.EXPERTS] += self.experts[member]
        return {part: parts[part] for part in Part if parts[part]}


class _Spread:
    """Divides pieces over the ranks of one stage."""

    def __init__(self, experts: int, degrees: Degrees) -> None:
        self._experts = experts
        self._degrees = degrees
        self._counts: dict[tuple[int, ...], tuple[int, ...]] = {}

    def sum(self, pieces: Iterable[Piece]) -> _Sum:
        """Return what each rank holds of them."""
        total = _Sum(Counter(), [0] * self._degrees.members)
        for piece in pieces:
            held = self._held(piece)
            if not piece.experts or self._degrees.experts == 1:
                total.common[piece.part] += held * max(1, len(piece.experts))
            elif piece.part is Part.EXPERTS:
                for member, count in enumerate(self._count(piece.experts)):
                    total.experts[member] += count * held
            else:  # the experts of MTP layers: one sum for the fullest rank
                total.common[piece.part] += held * max(self._count(piece.experts))
        return total

    def _held(self, piece: Piece) -> int:
        """Return the bytes of one tensor on one rank that holds it."""
        degrees, size = self._degrees, piece.size_bytes
        match piece.over:
            case "whole":
                return size
            case "attention":
                return _share(size, piece.length, degrees.tensor)
            case "kv heads":
                return _share(size, piece.length, self._kv_width(piece))
            case "dense":
                return _share(size, piece.length, degrees.dense)
            case "shared":
                return _share(size, piece.length, degrees.shared)
            case "expert":
                return _share(size, piece.length, degrees.expert_width)
            case "stacked":
                return -(-_share(size, piece.length, degrees.experts) // degrees.expert_width)
            case "embedding":
                return _vocabulary(size, piece.length, degrees.embedding)
            case "head":
                return _vocabulary(size, piece.length, degrees.head)

    def _kv_width(self, piece: Piece) -> int:
        """With fewer heads than ranks, several ranks hold the same head."""
        return min(self._degrees.tensor, piece.kv_heads) if piece.kv_heads else self._degrees.tensor

    def _count(self, experts: tuple[int, ...]) -> tuple[int, ...]:
        """Return how many of these each rank holds: contiguous runs, the first ranks one more (vLLM's "linear")."""
        known = self._counts.get(experts)
        if known is None:
            ranks = self._degrees.experts
            base, more = divmod(self._experts, ranks)
            counts = [0] * ranks
            for number in experts:
                rank = number // (base + 1) if number < more * (base + 1) else (number - more) // max(1, base)
                counts[min(rank, ranks - 1)] += 1
            known = self._counts[experts] = tuple(counts)
        return known


def _outside(model: Model, degrees: Degrees, stage: int) -> list[Piece]:
    """Return the pieces beyond the decoder layers that a stage holds."""
    last = degrees.stages - 1
    found = []
    for piece in model.outside:
        match piece.part:
            case Part.VISION:
                here = True
            case Part.MTP:  # engines load them for speculative decoding only
                here = degrees.speculative and stage == last
            case Part.EMBEDDING:
                here = stage == 0 or (stage == last and (model.shape.tied_embeddings or degrees.speculative))
            case _:
                here = stage == last
        if here:
            found.append(piece)
    return found


def _share(size: int, length: int, width: int) -> int:
    """Return the largest of `width` parts of a dimension, in bytes of the tensor."""
    return size if length == 0 or width == 1 else size // length * -(-length // width)


def _vocabulary(size: int, rows: int, width: int) -> int:
    if rows <= 1:
        return size
    padded = -(-rows // _VOCABULARY_PADDING) * _VOCABULARY_PADDING
    return size // rows * -(-padded // width)
