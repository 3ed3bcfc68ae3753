"""What does an hour of the machine that booted cost, where a price of its class is known? Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from kboot.values import dataclass

if TYPE_CHECKING:
    from kboot.profile.types import NodeClass
    from kboot.report.types import BootReport


@dataclass(frozen=True, slots=True)
class HourPrice:
    """usd_per_hour: of the whole node. basis: where the number comes from; empty where it was asked for."""

    usd_per_hour: float
    basis: str = ""


def price_of(report: BootReport, classes: Iterable[NodeClass]) -> HourPrice | None:
    """Return the price for as many GPUs as the node has, else the cheapest of its class, scaled; None for none."""
    if not report.gpus:
        return None
    prices = [p for c in classes if c.gpu.lower() == report.gpu_class.lower() for p in c.price]
    best = min(prices, key=lambda p: (p.gpus != report.gpus, p.usd_per_hour / p.gpus, p.per), default=None)
    if best is None:
        return None
    scaled = "" if best.gpus == report.gpus else f", for {report.gpus}"
    return HourPrice(best.usd_per_hour / best.gpus * report.gpus, f"{best.per} of {best.as_of}{scaled}")
