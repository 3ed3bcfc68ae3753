"""Does a layout's share of the weights fit this very node, as its GPUs, memory and disk stand now?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from kboot.errors import DoesNotFit
from kboot.plan.disk import HINT_DISK, FitLine, fit_disk
from kboot.plan.fit import FitRow, weight_bytes, why
from kboot.plan.layout import chosen_gpus
from kboot.plan.memory.place import place
from kboot.plan.memory.reserve import DRIVER_RESERVE, GIB, RESERVE_BYTES
from kboot.quantities import show_gb
from kboot.values import dataclass

if TYPE_CHECKING:
    from kboot.checkpoint import CheckpointFacts
    from kboot.facts.basic_types import MemoryFacts
    from kboot.facts.types import Gpu, NodeFacts
    from kboot.plan.memory.model import Model
    from kboot.profile.types import LayoutAsk, NodeClass

HOST_BYTES_PER_WORKER = 4 * GIB
"""Host memory of one GPU worker with its front ends: 2.2 + 1 + 1 GiB (vLLM 0.26.0, 2x H200, recorded boot)."""


_HINT_MISSING = "a plan needs the GPUs themselves; `kboot fit --gpu CLASS` judges those that are not here"


@dataclass(frozen=True, slots=True)
class FitVerdict:
    """limiting_gpu: index of the GPU with the least free memory; pids: who holds memory of it."""

    layout: str
    lines: tuple[FitLine, ...]
    limiting_gpu: int | None = None
    pids: tuple[int, ...] = ()

    @property
    def fits(self) -> bool | None:
        """False where one resource is too small, None where none is but one could not be read."""
        answers = [line.fits for line in self.lines]
        return False if False in answers else None if None in answers else True

    @property
    def short(self) -> tuple[FitLine, ...]:
        """The resources that are too small."""
        return tuple(line for line in self.lines if line.fits is False)


@dataclass(frozen=True, slots=True)
class _Room:
    """Free memory of one usable GPU; have_bytes None: not readable."""

    gpu: Gpu
    have_bytes: int | None
    kind: Literal["whole", "slice", "slice-missing", "unified"]


def fit_node(
    facts: NodeFacts,
    layout: LayoutAsk,
    weights_bytes: int,
    node_classes: Sequence[NodeClass],
    missing_bytes: int = 0,
    model: Model | None = None,
) -> FitVerdict:
    """Compare the layout's needs on this node with what is free now.

    weights_bytes: of the whole model; without `model` this node's GPUs hold an even share of it. model: from the
    headers, then the rank that holds most decides. missing_bytes: what the rest still takes of the state
    folder's disk (CheckpointFacts.disk_bytes).
    """
    disk = fit_disk(facts.mounts, missing_bytes)
    if layout.gpus_per_node == 0:
        return FitVerdict(layout.name, (_ram(facts.memory, weights_bytes, "weights in host memory"), disk))
    rooms = [_room(gpu, facts.memory) for gpu in chosen_gpus(facts, layout, node_classes)]
    share = -(-weights_bytes // (layout.gpus_per_node * layout.nodes))
    gpu_line, limiting = _gpus(rooms, layout, share, model)
    lines: tuple[FitLine, ...] = (gpu_line, disk)
    if not any(room.kind == "unified" for room in rooms):
        lines = (gpu_line, _ram(facts.memory, layout.gpus_per_node * HOST_BYTES_PER_WORKER, "engine processes"), disk)
    if limiting is None:
        return FitVerdict(layout.name, lines)
    return FitVerdict(layout.name, lines, limiting.index, limiting.processes)


def first_that_fits(
    facts: NodeFacts,
    layouts: Sequence[LayoutAsk],
    checkpoint: CheckpointFacts,
    node_classes: Sequence[NodeClass],
    model: Model | None = None,
) -> tuple[LayoutAsk, tuple[str, ...]]:
    """Return the first layout that fits this node now, and a warning for each that was passed over.

    What could not be read is no refusal.

    Raises:
        DoesNotFit: none fits; the error speaks of the first, which the profile prefers.
    """
    weights = weight_bytes((f.path, f.size_bytes) for f in checkpoint.listing.files) or 0
    refused: list[FitVerdict] = []
    for layout in layouts:
        verdict = fit_node(facts, layout, weights, node_classes, checkpoint.disk_bytes, model)
        if verdict.fits is not False:
            return layout, tuple(f"layout {v.layout} does not fit this node: {v.short[0].text}" for v in refused)
        refused.append(verdict)
    raise node_does_not_fit(refused[0])


def node_does_not_fit(verdict: FitVerdict) -> DoesNotFit:
    """Build the error for a node that is too small."""
    first, *others = (line.text for line in verdict.short)
    holders = f"end pid {', '.join(map(str, verdict.pids))}, or take other GPUs" if verdict.pids else ""
    gpu = next((line for line in verdict.short if line.what == "gpu"), None)
    missing = gpu is not None and gpu.have_bytes is None
    code = "gpus-missing" if missing else "gpu-memory-too-small" if gpu else f"{verdict.short[0].what}-too-small"
    hints = {
        "gpu": _HINT_MISSING if missing else holders or "take a layout with more GPUs",
        "ram": "free memory, or raise the memory limit of the service",
        "disk": HINT_DISK,
    }
    return DoesNotFit(
        code,
        f"layout {verdict.layout} does not fit this node: {first}",
        where=tuple(others),
        hint="; ".join(hints[line.what] for line in verdict.short),
    )


def _room(gpu: Gpu, memory: MemoryFacts) -> _Room:
    """A worker on a MIG part gets one instance; on a unified part it shares the host's memory."""
    if gpu.mig:
        if not gpu.mig_slices:
            return _Room(gpu, 0, "slice-missing")
        return _Room(gpu, _smallest([s.memory_total_bytes for s in gpu.mig_slices]), "slice")
    if gpu.unified:
        return _Room(gpu, memory.usable_bytes, "unified")
    if gpu.memory_total_bytes is None or gpu.memory_used_bytes is None:
        return _Room(gpu, None, "whole")
    # NVML counts the driver's own reserve as used on some drivers and apart on others: counted once here
    used = max(gpu.memory_used_bytes, DRIVER_RESERVE.size_bytes)
    return _Room(gpu, gpu.memory_total_bytes - used, "whole")


def _smallest(sizes: Sequence[int | None]) -> int | None:
    known = [size for size in sizes if size is not None]
    return min(known) if len(known) == len(sizes) else None


def _gpus(rooms: Sequence[_Room], layout: LayoutAsk, share: int, model: Model | None) -> tuple[FitLine, Gpu | None]:
    need = share + RESERVE_BYTES - DRIVER_RESERVE.size_bytes
    if len(rooms) < layout.gpus_per_node:
        text = f"{len(rooms)} of {layout.gpus_per_node} GPUs of class {layout.gpu} are there"
        return FitLine("gpu", False, need, None, text), None
    unread = [room.gpu.index for room in rooms if room.have_bytes is None]
    if unread:
        text = f"free memory of GPU {', '.join(map(str, unread))} could not be read"
        return FitLine("gpu", None, need, None, text), None
    tightest = min(rooms, key=lambda room: (room.have_bytes, room.gpu.index))
    have = tightest.have_bytes or 0
    if model is not None:
        return _placed_line(tightest, have, layout, model), tightest.gpu
    needs = f"{show_gb(share)} of weights and {show_gb(need - share)} of reserve are needed"
    text = f"{_room_words(tightest, have)}; {needs}"
    return FitLine("gpu", have > need, need, have, text), tightest.gpu


def _placed_line(room: _Room, have: int, layout: LayoutAsk, model: Model) -> FitLine:
    """Lay the model out on the tightest GPU: its engine may not use what others hold, nor more than it lets itself."""
    total = have + DRIVER_RESERVE.size_bytes
    if room.kind == "whole":
        total = max(total, room.gpu.memory_total_bytes or 0)
    placed = place(model, layout, total, held_bytes=total - DRIVER_RESERVE.size_bytes - have)
    need = total - placed.room_bytes - DRIVER_RESERVE.size_bytes
    row = FitRow(layout.name, layout.gpu, layout.gpus_per_node, layout.nodes, total, model.stored_bytes, placed)
    words = _room_words(room, have)
    if placed.fits:
        weights = f"{show_gb(placed.largest.total_bytes)} of weights on the fullest rank ({placed.degrees.words})"
        return FitLine("gpu", True, need, have, f"{words}; {weights}, {show_gb(placed.room_bytes)} for the KV cache")
    return FitLine("gpu", False, need, have, f"{words}; {placed.degrees.words}: {row.why_not}; {why(row)}".rstrip("; "))


def _room_words(room: _Room, have: int) -> str:
    index = room.gpu.index
    match room.kind:
        case "slice-missing":
            return f"GPU {index} is in MIG mode without an instance: no usable device"
        case "slice":
            return f"the smallest MIG instance of GPU {index} has {show_gb(have)}"
        case "unified":
            return f"GPU {index} shares the host's memory, {show_gb(have)} available"
        case _:
            pids = f" (pid {', '.join(map(str, room.gpu.processes))} holds memory)" if room.gpu.processes else ""
            return f"GPU {index} has the least free memory, {show_gb(have)}{pids}"


def _ram(memory: MemoryFacts, need: int, what: str) -> FitLine:
    have = memory.usable_bytes
    limited = " (the cgroup's limit)" if have < memory.available_bytes else ""
    huge = f", {show_gb(memory.hugepages_bytes)} more in huge pages" if memory.hugepages_bytes else ""
    text = f"{show_gb(need)} of RAM for {what}, {show_gb(have)} available{limited}{huge}"
    return FitLine("ram", have >= need, need, have, text)
