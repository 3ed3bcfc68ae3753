"""On which hardware do a model's weights fit, by how much, and what is left for the KV cache?

From a size alone the weights are divided evenly over the GPUs, and the answer says so. From the headers of the
checkpoint every rank has its own sum: what data parallelism repeats is counted on each rank that holds it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field
from typing import TYPE_CHECKING

from kboot.checkpoint import WEIGHT_SUFFIXES
from kboot.errors import DoesNotFit, UsageError
from kboot.plan.memory.place import Placed, best_way, place
from kboot.plan.memory.reserve import RESERVE_BYTES, RESERVES, Reserve
from kboot.profile.types import LayoutAsk, NodeClass
from kboot.quantities import show_gb, show_gb_of
from kboot.values import dataclass

if TYPE_CHECKING:
    from kboot.plan.memory.model import Model

_EVEN_NOTES = (
    "weights are divided evenly over the GPUs: without headers it is not known which tensors several ranks hold",
    "the engine's own limit (--gpu-memory-utilization) is not counted",
)
_HEADER_NOTES = ("per GPU: the rank that holds most, tensors that several ranks hold counted on each",)
_HOPPER = frozenset({"H100", "H200"})


@dataclass(frozen=True, slots=True)
class FitRow:
    """The weights on one arrangement of GPUs.

    layout: its name in the profile; empty for hardware no layout asks for. memory_bytes: nominal, per GPU.
    placed: the sum of every rank; None where headers are not known.
    """

    layout: str
    gpu: str
    gpus_per_node: int
    nodes: int
    memory_bytes: int
    weights_bytes: int
    placed: Placed | None = field(default=None, compare=False)

    @property
    def gpus(self) -> int:
        """GPUs of all nodes."""
        return self.gpus_per_node * self.nodes

    @property
    def total_bytes(self) -> int:
        """Memory of all GPUs."""
        return self.memory_bytes * self.gpus

    @property
    def over_bytes(self) -> int:
        """Memory beyond the weights, before any reserve; negative: short by so much."""
        return self.total_bytes - self.weights_bytes

    @property
    def even_bytes(self) -> int:
        """The largest even share."""
        return -(-self.weights_bytes // self.gpus)

    @property
    def weights_per_gpu_bytes(self) -> int:
        """What the GPU that holds most has of them."""
        return self.even_bytes if self.placed is None else self.placed.largest.total_bytes

    @property
    def kv_per_gpu_bytes(self) -> int:
        """What is left of one GPU after its share and the reserve; negative: short by so much."""
        if self.placed is not None:
            return self.placed.room_bytes
        return self.memory_bytes - self.even_bytes - RESERVE_BYTES

    @property
    def kv_bytes(self) -> int:
        """Room for the KV cache over all GPUs."""
        return max(0, self.kv_per_gpu_bytes) * self.gpus if self.placed is None else self.placed.kv_bytes

    @property
    def fits(self) -> bool:
        """True where every GPU holds its share and the reserve, with room for a KV cache."""
        return self.kv_per_gpu_bytes > 0 if self.placed is None else self.placed.fits

    @property
    def hardware(self) -> str:
        """ "8x B300", "16x B200 on 2 nodes"."""
        return f"{self.gpus}x {self.gpu}" + (f" on {self.nodes} nodes" if self.nodes > 1 else "")

    @property
    def way(self) -> str:
        """How the model is divided: "TP8+EP"; empty where it is not known."""
        return "" if self.placed is None else self.placed.degrees.words

    @property
    def verdict(self) -> str:
        """One line: what there is, and by how much it fits or does not."""
        there = f"{self.hardware}, {show_gb(self.total_bytes)}"
        by = f" as {self.way}" if self.way else ""
        if self.over_bytes < 0:
            return f"{there}: does not fit, {show_gb(-self.over_bytes)} short"
        if not self.fits:
            return f"{there}: does not fit{by}, {self.why_not}"
        context = ""
        if self.placed is not None and self.placed.kv is not None:
            context = f", context {self.placed.kv.context_tokens:,} tokens"
        room = f"{show_gb(self.over_bytes)} over the weights, {show_gb(self.kv_bytes)} for the KV cache"
        return f"{there}: fits{by}, {room}{context}"

    @property
    def why_not(self) -> str:
        """By how much it does not fit one GPU."""
        placed, short = self.placed, -self.kv_per_gpu_bytes
        if placed is None:
            return f"{show_gb(short)} short per GPU after the reserve"
        holds = f"{show_gb(placed.largest.total_bytes)} of weights on one GPU of {show_gb(self.memory_bytes)}"
        if placed.largest.total_bytes > self.memory_bytes:
            return holds
        if placed.kv is None or placed.room_bytes <= 0 or placed.kv.asked_tokens is None:
            return f"{holds}, {show_gb(short)} short after the reserve"
        need = placed.kv.need.sequence_bytes + placed.kv.asked_tokens * placed.kv.need.token_bytes
        left = f"{holds}, {show_gb(placed.room_bytes)} left for the KV cache"
        return f"{left}, one sequence of {placed.kv.asked_tokens:,} tokens takes {show_gb(need)}"


@dataclass(frozen=True, slots=True)
class FitReport:
    """Every arrangement that was looked at, smallest total memory first. asked: those the operator named, if any."""

    weights_bytes: int
    weights_from: str
    rows: tuple[FitRow, ...]
    asked: tuple[FitRow, ...]
    reserves: tuple[Reserve, ...] = RESERVES
    notes: tuple[str, ...] = _EVEN_NOTES

    @property
    def fitting(self) -> tuple[FitRow, ...]:
        """Those that fit."""
        return tuple(row for row in self.rows if row.fits)

    @property
    def fits(self) -> bool:
        """True where what was asked fits; without a question, where anything does."""
        return any(row.fits for row in self.asked or self.rows)


@dataclass(frozen=True, slots=True)
class FitAsk:
    """What is to be laid on what. model: None where headers are not known, then weights_bytes is all there is.

    gpu, gpus (per node), nodes: arrangements the operator asks about; what is left open is a full node, and one node
    unless the profile has layouts of that class.
    """

    weights_bytes: int
    layouts: tuple[LayoutAsk, ...] = ()
    node_classes: tuple[NodeClass, ...] = ()
    model: Model | None = None
    weights_from: str = ""
    gpu: str | None = None
    gpus: int | None = None
    nodes: int | None = None

    @property
    def is_question(self) -> bool:
        """Whether an arrangement is named."""
        return (self.gpu, self.gpus, self.nodes) != (None, None, None)


def fit(ask: FitAsk) -> FitReport:
    """Lay the weights on every layout and on one node of every class; without layouts on 1, 2 and 4 nodes.

    Raises:
        UsageError: `ask.gpu` is not a known class.
    """
    rows = {*_layout_rows(ask), *_class_rows(ask, (1,) if ask.layouts else (1, 2, 4))}
    asked: tuple[FitRow, ...] = ()
    if ask.is_question:
        asked = _asked(ask, _named(rows))
    return FitReport(
        ask.weights_bytes, ask.weights_from, _named({*rows, *asked}), _ordered(asked), RESERVES, _notes(ask, rows)
    )


def weight_bytes(files: Iterable[tuple[str, int]]) -> int | None:
    """Return the size of the weight files among (path, size): the safetensors, else of other formats; None without."""
    sizes = {path: size for path, size in files if path.endswith(WEIGHT_SUFFIXES)}
    preferred = [size for path, size in sizes.items() if path.endswith(".safetensors")]
    return sum(preferred or sizes.values()) or None


def why(row: FitRow) -> str:
    """Return the sum of the fullest rank, where it differs from an even division; empty where it does not.

    "routed experts 181 of 1,446 GB + shared experts 24.3 GB, whole + … = 295 GB on the fullest GPU, …".
    """
    placed = row.placed
    if placed is None or abs(placed.largest.total_bytes - row.even_bytes) * 100 < row.even_bytes:
        return ""
    total = placed.largest.total_bytes
    parts = sorted(placed.largest.parts.items(), key=lambda item: -item[1])
    small = total // 500
    words = [_held(part, size, placed.stored.get(part, 0)) for part, size in parts if size >= small]
    rest = sum(size for _, size in parts if size < small)
    words += [f"others {show_gb(rest)}"] if rest >= 50_000_000 else []
    return f"{' + '.join(words)} = {show_gb(total)} on the fullest GPU; an even part is {show_gb(row.even_bytes)}"


def _held(part: str, held: int, stored: int) -> str:
    """Return one term of a sum: "routed experts 181 of 1,446 GB", "shared experts 24.3 GB whole"."""
    if held < stored:
        return f"{part} {show_gb_of(held, stored)}"
    return f"{part} {show_gb(held)}" + (" whole" if stored else "")


def does_not_fit(report: FitReport) -> DoesNotFit:
    """Build the error for arrangements that do not fit: by how much, and the nearest that do."""
    missed = report.asked or report.rows
    first = missed[0] if report.asked else missed[-1]
    nearest = nearest_fitting(report, first)
    return DoesNotFit(
        "gpu-memory-too-small",
        f"{show_gb(report.weights_bytes)} of weights do not fit: {first.verdict}",
        where=tuple(text for row in missed for text in _where(row, first)),
        hint=f"nearest that fit: {'; '.join(row.verdict for row in nearest)}" if nearest else _NONE_FITS,
    )


def nearest_fitting(report: FitReport, wanted: FitRow) -> tuple[FitRow, ...]:
    """Return up to three arrangements that fit, by how near their memory is to the wanted one's."""
    return tuple(sorted(report.fitting, key=lambda row: abs(row.total_bytes - wanted.total_bytes))[:3])


_NONE_FITS = "no layout of the profile and no single node fits; more nodes: `--nodes N`"


def _where(row: FitRow, first: FitRow) -> Iterator[str]:
    if row != first:
        yield row.verdict
    if text := why(row):
        yield f"{row.layout or row.hardware}: {text}"


def _nodes_left_free(ask: FitAsk) -> bool:
    """Whether GPUs of a node were asked about, and not how many nodes."""
    return ask.gpus is not None and ask.nodes is None


def _notes(ask: FitAsk, rows: Iterable[FitRow]) -> tuple[str, ...]:
    free = ("the number of nodes was left free: `--nodes N` asks about so many",) if _nodes_left_free(ask) else ()
    return (*free, *_notes_of_model(ask, rows))


def _notes_of_model(ask: FitAsk, rows: Iterable[FitRow]) -> tuple[str, ...]:
    if ask.model is None:
        return _EVEN_NOTES
    packed = "mxfp4" in ask.model.shape.quantization.lower() and any(row.gpu in _HOPPER for row in rows)
    hopper = ("Hopper has no MXFP4 arithmetic: weights stay packed and are dequantised in the kernels (W4A16)",)
    unknown = {row.placed.kv_unknown for row in rows if row.placed and row.placed.kv_unknown}
    return (
        *_HEADER_NOTES,
        *(f"tokens are not counted: {text}" for text in sorted(unknown)),
        *(hopper if packed else ()),
    )


def _layout_rows(ask: FitAsk) -> Iterator[FitRow]:
    """Return a row for each layout; where that does not fit, another for the best way to use the same GPUs.

    From a size alone, layouts of the same GPUs are alike: the first speaks for all.
    """
    memory_of = {c.gpu.lower(): c for c in ask.node_classes}
    seen: set[tuple[str, int, int]] = set()
    for layout in ask.layouts:
        known = memory_of.get(layout.gpu.lower())
        if known is None or not layout.gpus_per_node:
            continue
        shape = (known.gpu, layout.gpus_per_node, layout.nodes, known.memory_bytes, ask.weights_bytes)
        if ask.model is None:
            if shape[:3] not in seen:
                yield FitRow(layout.name, *shape)
            seen.add(shape[:3])
            continue
        placed = place(ask.model, layout, known.memory_bytes)
        yield FitRow(layout.name, *shape, placed)
        if not placed.fits and (best := best_way(ask.model, layout, known.memory_bytes)) is not None:
            yield FitRow("", *shape, best)


def _class_rows(ask: FitAsk, counts: Sequence[int]) -> Iterator[FitRow]:
    for known in ask.node_classes:
        for nodes in counts:
            yield _hardware(ask, known, known.gpus_per_node, nodes)


def _hardware(ask: FitAsk, known: NodeClass, gpus: int, nodes: int) -> FitRow:
    """Return hardware that no layout names, used in the way that leaves most room."""
    placed = None
    if ask.model is not None:
        like = next((a for a in ask.layouts if a.gpu == known.gpu), next(iter(ask.layouts), None))
        name, engine, args = (like.name, like.engine, like.args) if like else ("", "vllm", ())
        layout = LayoutAsk(name=name, gpu=known.gpu, gpus_per_node=gpus, nodes=nodes, engine=engine, args=args)
        placed = best_way(ask.model, layout, known.memory_bytes) or place(ask.model, layout, known.memory_bytes)
    return FitRow("", known.gpu, gpus, nodes, known.memory_bytes, ask.weights_bytes, placed)


def _named(rows: Iterable[FitRow]) -> tuple[FitRow, ...]:
    """Drop nameless hardware that a layout names, unless it shows a way that fits where the layout does not."""
    found = list(rows)
    layouts = {_arrangement(r) for r in found if r.layout}
    fitting = {_arrangement(r) for r in found if r.layout and r.fits}
    return _ordered(
        row
        for row in found
        if row.layout or _arrangement(row) not in layouts or (_arrangement(row) not in fitting and row.fits)
    )


def _arrangement(row: FitRow) -> tuple[str, int, int]:
    return row.gpu, row.gpus_per_node, row.nodes


def _order(row: FitRow) -> tuple[int, int, str, bool, str, str]:
    return row.total_bytes, row.gpus, row.gpu, not row.layout, row.layout, row.way


def _ordered(rows: Iterable[FitRow]) -> tuple[FitRow, ...]:
    return tuple(sorted(rows, key=_order))


def _asked(ask: FitAsk, rows: Sequence[FitRow]) -> tuple[FitRow, ...]:
    classes = [c for c in ask.node_classes if ask.gpu is None or c.gpu.lower() == ask.gpu.lower()]
    if not classes:
        raise UsageError(
            "gpu-class-unknown",
            f"there is no node class {ask.gpu!r}",
            hint=f"known: {', '.join(sorted(c.gpu for c in ask.node_classes))}",
        )
    found: list[FitRow] = []
    for known in classes:
        wanted = (known.gpu, ask.gpus, ask.nodes)
        of_class = [r for r in rows if all(w in (None, is_) for w, is_ in zip(wanted, _arrangement(r), strict=True))]
        named = {_arrangement(r) for r in of_class if r.layout}
        free = _nodes_left_free(ask)
        found += [r for r in of_class if (free and r.nodes == 1) or _arrangement(r) in named] or [
            _hardware(ask, known, ask.gpus or known.gpus_per_node, ask.nodes or 1)
        ]
    return tuple(found)
