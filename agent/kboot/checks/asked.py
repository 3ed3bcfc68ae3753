"""Which of a profile's layouts is meant for this node, and how many workers does it put here?"""

from __future__ import annotations

import re

from kboot.facts.types import Gpu, GpuFacts, NodeFacts
from kboot.facts.visible import usable_gpus
from kboot.profile.types import LayoutAsk, Profile

_WITHOUT_GPU = ("command", "demo")


def is_class(product: str, gpu_class: str) -> bool:
    """Return whether a product name is of a node class: "NVIDIA H200" is H200, "NVIDIA GH200 480GB" is not."""
    return gpu_class.lower() in re.split(r"[^a-z0-9]+", product.lower())


def gpus_for(gpu: GpuFacts, layout: LayoutAsk) -> tuple[Gpu, ...]:
    """Return the GPUs of a layout's class that may be used."""
    return tuple(g for g in usable_gpus(gpu) if is_class(g.name, layout.gpu))


def layout_for(gpu: GpuFacts, profile: Profile) -> LayoutAsk | None:
    """Return the first layout this node has enough GPUs for; else the first of its class; None when there is none.

    That a node is short of GPUs for its class's layout is `gpu.count`'s finding.
    """
    for layout in profile.layout:
        if not needs_gpus(layout) or 0 < layout.gpus_per_node <= len(gpus_for(gpu, layout)):
            return layout
    return next((layout for layout in profile.layout if gpus_for(gpu, layout)), None)


def needs_gpus(layout: LayoutAsk) -> bool:
    """Return whether a layout cannot start on a machine without GPUs."""
    return layout.gpu.lower() != "none" or layout.engine not in _WITHOUT_GPU


def workers(layout: LayoutAsk | None) -> int:
    """Return the engine workers on one node: one per GPU, at least one."""
    return max(1, layout.gpus_per_node) if layout else 1


def sees_all_gpus(facts: NodeFacts) -> bool:
    """Return whether NVML lists every GPU that answers, by its address.

    A container, or a job of Slurm, sees the whole bus and the whole kernel log, but only the GPUs it was given.
    """
    return facts.os.container is None and not facts.os.slurm_job and all(gpu.bus_id for gpu in facts.gpu.gpus)


def serving_pids(facts: NodeFacts) -> frozenset[int]:
    """Return the processes of the engine's live workers that kboot knows."""
    return frozenset(worker.pid for worker in facts.asked.workers or () if worker.pid is not None)


def gap_reason(facts: NodeFacts, *names: str) -> str:
    """Return why a fact could not be read. names: its dotted name or what leads it, the most telling first."""
    for name in names:
        for gap in facts.gaps:
            if gap.fact == name or gap.fact.startswith(f"{name}."):
                return f"{gap.source}: {gap.reason}"
    return "this machine did not tell"


def unread_below(facts: NodeFacts, name: str) -> bool:
    """Return whether a GPU's own fact ("gpus.0.processes") is a Gap."""
    return any(gap.fact.removeprefix("gpu.") == name for gap in facts.gaps)


def unread(facts: NodeFacts, *names: str) -> bool:
    """Return whether one of these facts (or the group it is in) is a Gap."""
    return any(gap.fact in names for gap in facts.gaps)
