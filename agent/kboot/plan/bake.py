"""For which nodes is an image made, what can be known of their kernel caches here, and what waits for their GPUs?"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from kboot.engines.common import layout_words, node_factors
from kboot.errors import UsageError
from kboot.plan.layout import wants_words
from kboot.values import dataclass

if TYPE_CHECKING:
    from kboot.facts.types import NodeFacts
    from kboot.profile.types import LayoutAsk, NodeClass, Profile

ARCH_LIST = "TORCH_CUDA_ARCH_LIST"
_ARCH = re.compile(r"(\d+)\.(\d)[af]?(?:\+PTX)?", re.IGNORECASE)
_GPUS_OWN = ("gpu_name", "driver", "cuda")
"""Factors that only a node's own driver tells."""


@dataclass(frozen=True, slots=True)
class TargetAsk:
    """What the operator says of the nodes. None: whatever the profile has. driver, cuda: versions on them, if known."""

    gpu: str | None = None
    gpus: int | None = None
    nodes: int | None = None
    driver: str = ""
    cuda: str = ""


def targets(
    profile: Profile, classes: Sequence[NodeClass], ask: TargetAsk, environ: Mapping[str, str]
) -> tuple[LayoutAsk, ...]:
    """Return the layouts that an image is made for, in the profile's order; no GPU is asked.

    Those the operator names; without a name those of the architectures in TORCH_CUDA_ARCH_LIST, where the profile has
    any, else all.

    Raises:
        UsageError: the profile has no such layout.
    """
    asked = tuple(
        layout
        for layout in profile.layout
        if (ask.gpu is None or layout.gpu.lower() == ask.gpu.lower())
        and ask.gpus in (None, layout.gpus_per_node)
        and ask.nodes in (None, layout.nodes)
    )
    if not asked:
        words = [f"{ask.gpus}x" if ask.gpus else "", ask.gpu or "GPU", f"on {ask.nodes} nodes" if ask.nodes else ""]
        raise UsageError(
            "bake-target-unknown",
            f"profile {profile.name} has no layout for {' '.join(word for word in words if word)}",
            where=tuple(wants_words(layout) for layout in profile.layout),
            hint="bake for one of these, or add a [[layout]] in a drop-in",
        )
    if ask.gpu is not None:
        return asked
    archs = arch_list(environ.get(ARCH_LIST, ""))
    capable = {c.gpu.lower() for c in classes if c.compute_capability in archs}
    return tuple(layout for layout in asked if layout.gpu.lower() in capable) or asked


def arch_list(text: str) -> frozenset[tuple[int, int]]:
    """Return the compute capabilities of TORCH_CUDA_ARCH_LIST: "9.0a 10.0a" is (9, 0) and (10, 0)."""
    found = (_ARCH.fullmatch(word) for word in re.split(r"[\s;,]+", text.strip()) if word)
    return frozenset((int(m[1]), int(m[2])) for m in found if m)


def target_factors(
    facts: NodeFacts, profile: Profile, layout: LayoutAsk, commit: str, classes: Sequence[NodeClass], ask: TargetAsk
) -> Mapping[str, str]:
    """Return the factors of the target's cache key as far as they are known without its GPUs.

    What only its driver tells is left out, unless the operator says it. facts: of the machine that bakes, for the
    engine and its packages.
    """
    known = dict(node_factors(facts, layout.engine))
    for name in _GPUS_OWN if layout.gpus_per_node else ():
        del known[name]
    if layout.gpus_per_node:
        of_class = next((c for c in classes if c.gpu.lower() == layout.gpu.lower()), None)
        known["gpu_arch"] = "sm{}{}".format(*of_class.compute_capability) if of_class else ""
        known |= {n: v for n, v in (("driver", ask.driver), ("cuda", ask.cuda)) if v}
    known |= {"repo": profile.checkpoint.repo, "commit": commit, "layout": layout_words(layout)}
    return {name: value for name, value in sorted(known.items()) if value}


def deferred(chosen: Sequence[LayoutAsk], warm_layouts: Collection[str], seed: str) -> tuple[tuple[str, str], ...]:
    """Return what a node does at its first boot because it cannot be done here, each with why.

    warm_layouts: words of the layouts ("dp8ep") that a complete kernel cache in the image is for. seed: of the
    profile, where its name depends on the node's driver.
    """
    cold = [layout.name for layout in chosen if layout_words(layout) not in warm_layouts]
    found = []
    if seed:
        found.append(("kernel caches of the seed", f"{seed} is named by a key that the node's driver decides"))
    if cold:
        why = f"the engine builds its kernels when it runs on the target's GPUs ({', '.join(cold)})"
        found.append(("kernel warm-up", why))
    return tuple(found)
