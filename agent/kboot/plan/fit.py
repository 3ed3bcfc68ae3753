"""On which hardware do a model's weights fit, by how much, and what is left for the KV cache?

This version divides the weights evenly over all GPUs of a layout and says so: tensors that several ranks hold
(attention under data parallelism, embeddings, shared experts) are not counted twice yet.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kboot.errors import DoesNotFit, UsageError
from kboot.profile.types import LayoutAsk, NodeClass

GIB = 2**30
WEIGHT_SUFFIXES = (".safetensors", ".gguf", ".bin", ".pt", ".pth")


@dataclass(frozen=True, slots=True)
class Reserve:
    """GPU memory that neither weights nor KV cache get. source: who measured it, where."""

    name: str
    size_bytes: int
    source: str


_RUN = "vLLM 0.26.0, DP2+EP, 2x H200, recorded boot"
DRIVER_RESERVE = Reserve("driver", 644_939_776, "NVML `reserved` of an idle H200")
RESERVES: tuple[Reserve, ...] = (
    DRIVER_RESERVE,
    Reserve("CUDA graphs", int(2.52 * GIB), f"{_RUN}: `Estimated CUDA graph memory: 2.52 GiB`"),
    # 0.8 × 139.80 GiB seen by CUDA − 19.10 weights − 88.37 KV − 2.52 graphs
    Reserve("context, NCCL and activations", int(1.85 * GIB), f"{_RUN}: what its 80 % left beside weights, KV, graphs"),
)
RESERVE_BYTES = sum(r.size_bytes for r in RESERVES)
NOTES = (
    "weights are divided evenly over the GPUs; tensors that several ranks hold are counted once in this version",
    "the engine's own limit (--gpu-memory-utilization) is not counted",
)


@dataclass(frozen=True, slots=True)
class FitRow:
    """The weights on one arrangement of GPUs.

    layout: its name in the profile; empty for hardware no layout asks for. memory_bytes: nominal, per GPU.
    """

    layout: str
    gpu: str
    gpus_per_node: int
    nodes: int
    memory_bytes: int
    weights_bytes: int

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
    def weights_per_gpu_bytes(self) -> int:
        """The largest even share."""
        return -(-self.weights_bytes // self.gpus)

    @property
    def kv_per_gpu_bytes(self) -> int:
        """What is left of one GPU after its share and the reserve; negative: short by so much."""
        return self.memory_bytes - self.weights_per_gpu_bytes - RESERVE_BYTES

    @property
    def kv_bytes(self) -> int:
        """Room for the KV cache over all GPUs."""
        return max(0, self.kv_per_gpu_bytes) * self.gpus

    @property
    def fits(self) -> bool:
        """True where every GPU holds its share and the reserve, with room for a KV cache."""
        return self.kv_per_gpu_bytes > 0

    @property
    def hardware(self) -> str:
        """ "8x B300", "16x B200 on 2 nodes"."""
        return f"{self.gpus}x {self.gpu}" + (f" on {self.nodes} nodes" if self.nodes > 1 else "")

    @property
    def verdict(self) -> str:
        """One line: what there is, and by how much it fits or does not."""
        there = f"{self.hardware}, {gb(self.total_bytes)}"
        if self.over_bytes < 0:
            return f"{there}: does not fit, {gb(-self.over_bytes)} short"
        if not self.fits:
            return f"{there}: does not fit, {gb(-self.kv_per_gpu_bytes)} short per GPU after the reserve"
        return f"{there}: fits, {gb(self.over_bytes)} over the weights, {gb(self.kv_bytes)} for the KV cache"


@dataclass(frozen=True, slots=True)
class FitReport:
    """Every arrangement that was looked at, smallest total memory first. asked: those the operator named, if any."""

    weights_bytes: int
    weights_from: str
    rows: tuple[FitRow, ...]
    asked: tuple[FitRow, ...]
    reserves: tuple[Reserve, ...] = RESERVES
    notes: tuple[str, ...] = NOTES

    @property
    def fitting(self) -> tuple[FitRow, ...]:
        """Those that fit."""
        return tuple(row for row in self.rows if row.fits)

    @property
    def not_fitting(self) -> tuple[FitRow, ...]:
        """Those that do not."""
        return tuple(row for row in self.rows if not row.fits)

    @property
    def fits(self) -> bool:
        """True where what was asked fits; without a question, where anything does."""
        return any(row.fits for row in self.asked or self.rows)


def fit(
    weights_bytes: int,
    layouts: Sequence[LayoutAsk],
    node_classes: Sequence[NodeClass],
    asked_gpu: str | None = None,
    asked_gpus: int | None = None,
    asked_nodes: int | None = None,
    weights_from: str = "",
) -> FitReport:
    """Lay the weights on every layout and on one node of every class; without layouts on 1, 2 and 4 nodes.

    asked_gpu, asked_gpus (per node), asked_nodes: arrangements the operator asks about; what is left open is a full
    node, and one node unless the profile has layouts of that class.

    Raises:
        UsageError: `asked_gpu` is not a known class.
    """
    rows = {
        *_layout_rows(weights_bytes, layouts, node_classes),
        *_class_rows(weights_bytes, node_classes, (1,) if layouts else (1, 2, 4)),
    }
    asked: tuple[FitRow, ...] = ()
    if asked_gpu is not None or asked_gpus is not None or asked_nodes is not None:
        asked = _asked(weights_bytes, _named(rows), node_classes, asked_gpu, asked_gpus, asked_nodes)
    return FitReport(weights_bytes, weights_from, _named({*rows, *asked}), _ordered(asked))


def weight_bytes(files: Iterable[tuple[str, int]]) -> int | None:
    """Return the size of the weight files among (path, size): the safetensors, else of other formats; None without."""
    sizes = {path: size for path, size in files if path.endswith(WEIGHT_SUFFIXES)}
    preferred = [size for path, size in sizes.items() if path.endswith(".safetensors")]
    return sum(preferred or sizes.values()) or None


def gb(size_bytes: int) -> str:
    """Return decimal gigabytes, as GPU memory and checkpoints are sold: "1,561 GB", "4.3 GB"."""
    value = size_bytes / 1e9
    return f"{value:,.0f} GB" if abs(value) >= 99.95 else f"{value:.1f} GB".replace(".0 GB", " GB")


def does_not_fit(report: FitReport) -> DoesNotFit:
    """Build the error for arrangements that do not fit: by how much, and the nearest that do."""
    missed = report.asked or report.rows
    first = missed[0] if report.asked else missed[-1]
    nearest = report.fitting[:3]
    return DoesNotFit(
        "gpu-memory-too-small",
        f"{gb(report.weights_bytes)} of weights do not fit: {first.verdict}",
        where=tuple(row.verdict for row in missed if row != first),
        hint=f"nearest that fit: {'; '.join(row.verdict for row in nearest)}" if nearest else _NONE_FITS,
    )


_NONE_FITS = "no layout of the profile and no single node fits; more nodes: `--nodes N`"


def _layout_rows(
    weights_bytes: int, layouts: Sequence[LayoutAsk], node_classes: Sequence[NodeClass]
) -> Iterable[FitRow]:
    memory_of = {c.gpu.lower(): c for c in node_classes}
    for layout in layouts:
        known = memory_of.get(layout.gpu.lower())
        if known is not None and layout.gpus_per_node:
            yield FitRow(layout.name, known.gpu, layout.gpus_per_node, layout.nodes, known.memory_bytes, weights_bytes)


def _class_rows(weights_bytes: int, node_classes: Sequence[NodeClass], counts: Sequence[int]) -> Iterable[FitRow]:
    for known in node_classes:
        for nodes in counts:
            yield FitRow("", known.gpu, known.gpus_per_node, nodes, known.memory_bytes, weights_bytes)


def _named(rows: Iterable[FitRow]) -> tuple[FitRow, ...]:
    """Drop nameless hardware that a layout names."""
    layouts = {(r.gpu, r.gpus_per_node, r.nodes) for r in rows if r.layout}
    return _ordered(r for r in rows if r.layout or (r.gpu, r.gpus_per_node, r.nodes) not in layouts)


def _ordered(rows: Iterable[FitRow]) -> tuple[FitRow, ...]:
    return tuple(sorted(rows, key=lambda r: (r.total_bytes, r.gpus, r.gpu, r.layout)))


def _asked(
    weights_bytes: int,
    rows: Sequence[FitRow],
    node_classes: Sequence[NodeClass],
    gpu: str | None,
    gpus: int | None,
    nodes: int | None,
) -> tuple[FitRow, ...]:
    classes = [c for c in node_classes if gpu is None or c.gpu.lower() == gpu.lower()]
    if not classes:
        raise UsageError(
            "gpu-class-unknown",
            f"there is no node class {gpu!r}",
            hint=f"known: {', '.join(sorted(c.gpu for c in node_classes))}",
        )
    found: list[FitRow] = []
    for known in classes:
        of_layout = [
            r
            for r in rows
            if r.layout and r.gpu == known.gpu and gpus in (None, r.gpus_per_node) and nodes in (None, r.nodes)
        ]
        hardware = FitRow("", known.gpu, gpus or known.gpus_per_node, nodes or 1, known.memory_bytes, weights_bytes)
        found += of_layout or [hardware]
    return tuple(found)
