"""Costs and their dates."""

from __future__ import annotations

from pathlib import Path

import pytest

from kboot.host.paths import Paths
from kboot.plan.cost import break_even_output_tokens_s, describe_cost, layout_costs
from kboot.profile.load import load_node_classes, load_profile
from kboot.profile.types import ApiPrice

CLASSES = load_node_classes()
K3 = load_profile("kimi-k3.1-pro", Paths(Path("/nonexistent/s"), Path("/nonexistent/r"), Path("/nonexistent/c")))
LAYOUTS = {layout.name: layout for layout in K3.layout}


def test_an_hour_of_eight_b300() -> None:
    """$68.08 spot; $12.42 a GPU on demand makes $99.36; cheapest first."""
    spot, on_demand = layout_costs(LAYOUTS["8x-b300"], CLASSES)

    assert (68.08, False) == (spot.usd_per_hour, spot.scaled)
    assert (99.36, True) == (round(on_demand.usd_per_hour, 2), on_demand.scaled)


def test_every_line_carries_the_date() -> None:
    """A price without its date is not a fact."""
    spot, on_demand = layout_costs(LAYOUTS["8x-b300"], CLASSES)

    assert "8x-b300: $68.08 an hour (8x B300, spot, as of 2026-11-11)" == describe_cost(spot)
    assert (
        "8x-b300: $99.36 an hour (one B300, on demand, as of 2026-11-11, scaled to 8 GPUs); "
        "a cold start of 2,616 s costs $72.20"
    ) == describe_cost(on_demand, cold_start_s=2616)


def test_a_class_without_a_price_costs_nothing_we_know() -> None:
    """No price is no line, not zero dollars."""
    assert () == layout_costs(LAYOUTS["32x-h200"], CLASSES)


def test_a_cold_start_bills_every_gpu() -> None:
    """Half an hour of 32x H100 at $70.40 is $35.20; a clock that went back costs nothing."""
    (cost,) = layout_costs(LAYOUTS["32x-h100"], CLASSES)

    assert 35.20 == pytest.approx(cost.usd(1800))
    assert 0.0 == cost.usd(-5)


def test_self_hosting_passes_the_api_at() -> None:
    """$68.08 an hour buys 6.8M output tokens at $10.00: 1,891 a second; fewer where each brings 4 input tokens."""
    api = K3.model.api_price
    assert api is not None

    assert 1891.1 == pytest.approx(break_even_output_tokens_s(68.08, api, 0), abs=0.1)
    assert 1050.6 == pytest.approx(break_even_output_tokens_s(68.08, api, 4), abs=0.1)


def test_a_free_api_is_never_passed() -> None:
    """No division by zero."""
    free = ApiPrice(usd_per_million_input_tokens=0, usd_per_million_output_tokens=0, as_of="2026-11-11")

    assert break_even_output_tokens_s(68.08, free, 3) is None
