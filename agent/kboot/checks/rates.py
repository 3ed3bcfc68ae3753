"""How fast should the parts of a node be? By class of GPU, as data.

What a sound node of a class reaches; below 90 % of that it is slower than its equals. A class without a row is compared
with its own neighbours only.
"""

from __future__ import annotations

from collections.abc import Mapping

from kboot.checks.asked import is_class
from kboot.facts.types import NodeFacts
from kboot.values import dataclass

TOLERATED = 0.9
ALLREDUCE_GPUS = 8
"""The NVLink switches add up for all of a node at once; two of its GPUs reach 339 GB/s of eight's 480."""


@dataclass(frozen=True, slots=True)
class Rates:
    """h2d_gb_s: from pinned host memory to one GPU. allreduce_gb_s: bus rate of an all-reduce over ALLREDUCE_GPUS of
    a node. port_gbit_s: of one InfiniBand port.
    """

    h2d_gb_s: float
    allreduce_gb_s: float
    port_gbit_s: float


RATES: Mapping[str, Rates] = {
    "H100": Rates(52, 460, 380),
    "H200": Rates(55, 480, 400),
}


def rates_of(product: str) -> Rates | None:
    """Return the rates of a product's class; None where there is no row."""
    return next((rates for name, rates in RATES.items() if is_class(product, name)), None)


def rates_here(facts: NodeFacts) -> Rates | None:
    """Return the rates of the class that all GPUs of the node are of; None where there are several or none."""
    found = {rates_of(gpu.name) for gpu in facts.gpu.gpus}
    return found.pop() if len(found) == 1 else None
