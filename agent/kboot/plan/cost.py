"""What does a layout cost in an hour, and a cold start of it? Prices are dated; every answer says the date."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from kboot.values import dataclass

if TYPE_CHECKING:
    from kboot.profile.types import ApiPrice, LayoutAsk, NodeClass, NodePrice

SECONDS_PER_HOUR = 3600
INPUTS_PER_OUTPUT = (0.0, 3.0, 10.0)
"""Workloads a break-even is told for: input tokens for each output token."""


@dataclass(frozen=True, slots=True)
class LayoutCost:
    """One layout at one known price. usd_per_hour: of all its nodes, scaled from the GPUs the price is for."""

    layout: str
    gpus: int
    usd_per_hour: float
    price: NodePrice

    @property
    def scaled(self) -> bool:
        """True where the price is for another number of GPUs."""
        return self.gpus != self.price.gpus

    def usd(self, seconds: float) -> float:
        """Return what so many seconds cost: a cold start bills every GPU while none of them serves."""
        return self.usd_per_hour * max(0.0, seconds) / SECONDS_PER_HOUR


def layout_costs(layout: LayoutAsk, node_classes: Sequence[NodeClass]) -> tuple[LayoutCost, ...]:
    """Return the layout's cost at every known price of its class, cheapest first; empty where no price is known."""
    gpus = layout.gpus_per_node * layout.nodes
    prices = (p for c in node_classes if c.gpu.lower() == layout.gpu.lower() for p in c.price)
    costs = (LayoutCost(layout.name, gpus, price.usd_per_hour / price.gpus * gpus, price) for price in prices)
    return tuple(sorted(costs, key=lambda cost: (cost.usd_per_hour, cost.price.per)))


def describe_cost(cost: LayoutCost, cold_start_s: float | None = None) -> str:
    """Return one line with the date: "8x-b300: $68.08 an hour (8x B300, spot, as of 2026-11-11)"."""
    scaled = f", scaled to {cost.gpus} GPUs" if cost.scaled else ""
    line = f"{cost.layout}: ${cost.usd_per_hour:,.2f} an hour ({cost.price.per}, as of {cost.price.as_of}{scaled})"
    if cold_start_s is None:
        return line
    return f"{line}; a cold start of {cold_start_s:,.0f} s costs ${cost.usd(cold_start_s):,.2f}"


def break_even_output_tokens_s(usd_per_hour: float, api: ApiPrice, input_per_output: float) -> float | None:
    """Return the output tokens a second, sustained, above which serving costs less than the publisher's endpoint.

    input_per_output: input tokens for each output token of the workload. None: the endpoint is free.
    """
    usd_per_output = api.usd_per_million_output_tokens + input_per_output * api.usd_per_million_input_tokens
    if usd_per_output <= 0:
        return None
    return usd_per_hour / (usd_per_output / 1e6) / SECONDS_PER_HOUR


def describe_break_even(cost: LayoutCost, api: ApiPrice) -> str | None:
    """Return from which sustained rate on the layout is cheaper than the endpoint, for three workloads; None: never."""
    rates = [(inputs, break_even_output_tokens_s(cost.usd_per_hour, api, inputs)) for inputs in INPUTS_PER_OUTPUT]
    words = [f"{rate:,.0f}/s with {inputs:.0f} input tokens each" for inputs, rate in rates if rate is not None]
    if not words:
        return None
    read, written = api.usd_per_million_input_tokens, api.usd_per_million_output_tokens
    prices = f"${read:,.2f} in, ${written:,.2f} out a million tokens"
    than = f"cheaper than the API ({prices}, as of {api.as_of})"
    return f"{cost.layout}: {than} from this many output tokens on: {', '.join(words)}"


def cost_lines(
    layouts: Sequence[LayoutAsk],
    node_classes: Sequence[NodeClass],
    api: ApiPrice | None,
    cold_start_s: float | None,
) -> Iterator[str]:
    """Return a line for each price of each layout, and one for the endpoint at the cheapest price of each."""
    for layout in layouts:
        costs = layout_costs(layout, node_classes)
        yield from (describe_cost(cost, cold_start_s) for cost in costs)
        if costs and api is not None and (line := describe_break_even(costs[0], api)) is not None:
            yield line
