"""What an hour of the machine that booted costs."""

from __future__ import annotations

from dataclasses import replace

import pytest
from report_samples import kimi_boot

from kboot.profile.types import NodeClass, NodePrice
from kboot.report.price import HourPrice, price_of

EIGHT = NodePrice(usd_per_hour=68.0, gpus=8, per="8x B300, spot", as_of="2026-11-11")
ONE = NodePrice(usd_per_hour=12.0, gpus=1, per="one B300", as_of="2026-11-12")
B300 = NodeClass(
    gpu="B300",
    title="b",
    match=("B300",),
    memory_bytes=1,
    gpus_per_node=8,
    compute_capability=(10, 3),
    price=(ONE, EIGHT),
)


@pytest.mark.parametrize(
    ("gpus", "wanted"),
    [
        (8, HourPrice(68.0, "8x B300, spot of 2026-11-11")),
        (1, HourPrice(12.0, "one B300 of 2026-11-12")),
        (4, HourPrice(34.0, "8x B300, spot of 2026-11-11, for 4")),
    ],
)
def test_the_price_for_as_many_gpus_else_the_cheapest_scaled(gpus: int, wanted: HourPrice) -> None:
    """The basis says when a price was for another number of GPUs."""
    assert wanted == price_of(replace(kimi_boot(), gpu_class="b300", gpus=gpus), (B300,))


def test_no_price_is_not_a_price() -> None:
    """Another class, a machine without GPUs, and a report that does not say have none."""
    assert price_of(replace(kimi_boot(), gpu_class="H200", gpus=8), (B300,)) is None
    assert price_of(replace(kimi_boot(), gpu_class="none", gpus=0), (B300,)) is None
    assert price_of(kimi_boot(), (B300,)) is None
