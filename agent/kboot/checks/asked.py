"""Which of a profile's layouts is meant for this node, and how many workers does it put here?"""

from __future__ import annotations

import re

from kboot.facts.types import GpuFacts, NodeFacts
from kboot.profile.types import LayoutAsk, Profile


def is_class(product: str, gpu_class: str) -> bool:
    """Return whether a product name is of a node class: "NVIDIA H200" is H200, "NVIDIA GH200 480GB" is not."""
    return gpu_class.lower() in re.split(r"[^a-z0-9]+", product.lower())


def layout_for(gpu: GpuFacts, profile: Profile) -> LayoutAsk | None:
    """Return the first layout for this node's GPUs, or for no GPU where NVML lists none; None when there is none.

    A node with too few GPUs of the right class still gets the layout: that it is short is `gpu.count`'s finding.
    """
    for layout in profile.layout:
        if layout.gpu.lower() == "none" or layout.gpus_per_node == 0:
            return layout
        if any(is_class(g.name, layout.gpu) for g in gpu.gpus):
            return layout
    return None


def wants_gpus(profile: Profile) -> bool:
    """Return whether no layout of the profile works without a GPU."""
    return all(layout.gpus_per_node > 0 for layout in profile.layout)


def workers(layout: LayoutAsk | None) -> int:
    """Return the engine workers on one node: one per GPU, at least one."""
    return max(1, layout.gpus_per_node) if layout else 1


def gap_reason(facts: NodeFacts, *names: str) -> str:
    """Return why one of these facts (dotted names, or their first parts) could not be read."""
    for gap in facts.gaps:
        if any(gap.fact == name or gap.fact.startswith(f"{name}.") for name in names):
            return f"{gap.source}: {gap.reason}"
    return "this machine did not tell"
