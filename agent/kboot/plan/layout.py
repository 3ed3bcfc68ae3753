"""Which of a profile's layouts is meant for this node?"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from kboot.errors import DoesNotFit, FactMissing, UsageError
from kboot.facts.visible import usable_gpus

if TYPE_CHECKING:
    from kboot.facts.types import Gpu, GpuFacts, NodeFacts
    from kboot.profile.types import LayoutAsk, NodeClass, Profile

_WITHOUT_GPU = frozenset({"command", "demo"})  # engines that can serve from CPUs


def matching_layouts(
    profile: Profile, facts: NodeFacts, node_classes: Sequence[NodeClass], gpu: str | None = None
) -> tuple[LayoutAsk, ...]:
    """Return the layouts whose GPUs this node has, enough of them, in the profile's order; `gpu = "none"` needs none.

    gpu: only layouts for this class, whether the node has such GPUs or not.

    Raises:
        UsageError: `gpu` names no class of the profile's layouts.
        FactMissing: NVIDIA devices are there, but NVML could not say what they are.
        DoesNotFit: no layout matches what was found.
    """
    if gpu is not None:
        return _layouts_of_class(profile, gpu)
    found = tuple(a for a in profile.layout if _needs_no_gpu(a) or _has_gpus(facts, a, node_classes))
    if found:
        return found
    if facts.gpu.nvml != "ok" and facts.gpu.pci_bus_ids:
        raise _unknown_gpus(profile, facts.gpu)
    raise _no_layout(profile, facts.gpu)


def of_nodes(layouts: Sequence[LayoutAsk], nodes: int | None, node_rank: int) -> tuple[LayoutAsk, ...]:
    """Return the layouts of so many nodes in which there is a node of that rank.

    Raises:
        UsageError: there is none.
    """
    found = tuple(a for a in layouts if nodes in (None, a.nodes) and node_rank < a.nodes)
    if found:
        return found
    asked = f"{nodes} nodes" if nodes is not None else f"a node of rank {node_rank}"
    nodes_miss = nodes is not None and all(a.nodes != nodes for a in layouts)
    if nodes is not None and not nodes_miss:
        asked = f"a node of rank {node_rank} among {nodes}"
    raise UsageError(
        "no-layout-of-nodes",
        f"no layout for these GPUs has {asked}",
        where=tuple(wants_words(layout) for layout in layouts),
        hint=f"leave out --nodes, or name {_numbers(a.nodes for a in layouts)}" if nodes_miss else "ranks begin at 0",
    )


def _numbers(numbers: Iterable[int]) -> str:
    return " or ".join(str(number) for number in sorted(set(numbers)))


def class_of(product: str, node_classes: Sequence[NodeClass]) -> NodeClass | None:
    """Return the class whose `match` the product name contains; the longest one where several do."""
    fits = [(len(m), c.gpu, c) for c in node_classes for m in c.match if m.lower() in product.lower()]
    return max(fits, key=lambda f: f[:2])[2] if fits else None


def is_of_class(gpu: Gpu, wanted: str, node_classes: Sequence[NodeClass]) -> bool:
    """Return whether a GPU is of a layout's class; a class nobody described is looked for as a word of the name."""
    known = class_of(gpu.name, node_classes)
    if known is not None:
        return known.gpu.lower() == wanted.lower()
    return wanted.lower() in re.split(r"[^a-z0-9]+", gpu.name.lower())


def chosen_gpus(facts: NodeFacts, layout: LayoutAsk, node_classes: Sequence[NodeClass]) -> tuple[Gpu, ...]:
    """Return the GPUs that the layout's workers get on this node: the first of its class that may be used."""
    of_class = (g for g in usable_gpus(facts.gpu) if is_of_class(g, layout.gpu, node_classes))
    return tuple(of_class)[: layout.gpus_per_node]


def found_words(gpu: GpuFacts) -> str:
    """Return what GPUs there are, for a message: "2x NVIDIA H200", "no GPU", "1x … (of 8; CUDA_VISIBLE_DEVICES=3)"."""
    usable = usable_gpus(gpu)
    counts = Counter(g.name for g in usable)
    told = ", ".join(f"{n}x {name}" for name, n in sorted(counts.items())) or "no GPU"
    return told if gpu.visible is None else f"{told} (of {len(gpu.gpus)}; CUDA_VISIBLE_DEVICES={gpu.visible})"


def wants_words(layout: LayoutAsk) -> str:
    """Return what a layout wants of each node: "8x-b300: 8x B300 on 1 node"."""
    if layout.gpus_per_node == 0:
        return f"{layout.name}: no GPU"
    nodes = "1 node" if layout.nodes == 1 else f"each of {layout.nodes} nodes"
    return f"{layout.name}: {layout.gpus_per_node}x {layout.gpu} on {nodes}"


def _layouts_of_class(profile: Profile, gpu: str) -> tuple[LayoutAsk, ...]:
    found = tuple(layout for layout in profile.layout if layout.gpu.lower() == gpu.lower())
    if found:
        return found
    raise UsageError(
        "gpu-class-unknown",
        f"profile {profile.name} has no layout for {gpu!r}",
        where=tuple(wants_words(layout) for layout in profile.layout),
        hint=_classes_hint(sorted({layout.gpu for layout in profile.layout} - {"none"})),
    )


def _classes_hint(classes: Sequence[str]) -> str:
    return f"it has layouts for {', '.join(classes)}" if classes else "its layouts need no GPU: leave out --gpu"


def _needs_no_gpu(layout: LayoutAsk) -> bool:
    return layout.gpu.lower() == "none" and layout.engine in _WITHOUT_GPU


def _has_gpus(facts: NodeFacts, layout: LayoutAsk, node_classes: Sequence[NodeClass]) -> bool:
    return 0 < layout.gpus_per_node == len(chosen_gpus(facts, layout, node_classes))


def _unknown_gpus(profile: Profile, gpu: GpuFacts) -> FactMissing:
    return FactMissing(
        "gpus-unknown",
        f"{len(gpu.pci_bus_ids)} NVIDIA devices are on the PCI bus, but NVML did not say what they are: {gpu.nvml}",
        where=tuple(text for text in (gpu.detail, *(wants_words(layout) for layout in profile.layout)) if text),
        hint="`kboot doctor` says what is wrong with the driver",
    )


def _no_layout(profile: Profile, gpu: GpuFacts) -> DoesNotFit:
    return DoesNotFit(
        "no-layout-for-node",
        f"this node has {found_words(gpu)}; no layout of profile {profile.name} is for that",
        where=tuple(wants_words(layout) for layout in profile.layout),
        hint=f"add a [[layout]] in a drop-in, or see `kboot fit {profile.name}` for the nodes that hold the model",
    )
