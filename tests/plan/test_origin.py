"""Whichever gives more is asked first, and a volume that still fetches its blocks is recognised."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kboot.plan.origin import choose_origin, is_lazy

# Read once, while tests are collected: the tests of plans open nothing.
CASE = json.loads((Path(__file__).parents[1] / "cases/B152/bench.json").read_text())


def test_a_snapshot_that_is_read_lazily_loses_against_the_network() -> None:
    """B152: 12 MB/s at first touch against 900 MB/s; the sentence says both, and how long it takes."""
    origin = choose_origin(CASE["first_touch_MBps"] * 1e6, CASE["network_MBps"] * 1e6, CASE["bytes"])

    assert "network" == origin.choice
    assert "fetched: the image gives 12.0 MB/s, the network 900 MB/s; 140 GB take 2 min 36 s" == origin.why


@pytest.mark.parametrize(
    ("image", "network", "expected"),
    [(2e9, 9e8, "image"), (2e9, None, "image"), (None, 1e6, "network"), (None, None, "image"), (1e9, 1e9, "image")],
)
def test_whichever_gives_more(image: float | None, network: float | None, expected: str) -> None:
    """What gives nothing is no choice; with nothing known, what is on this machine is tried first."""
    assert expected == choose_origin(image, network, 10**9).choice


@pytest.mark.parametrize(
    ("reads", "first_s", "second_s", "expected"),
    [(16, 0.030, 0.001, True), (16, 0.0001, 0.00009, False), (16, 0.030, 0.020, False), (5, 0.030, 0.001, False)],
)
def test_lazily_loaded_volumes(reads: int, first_s: float, second_s: float, expected: bool) -> None:
    """Tens of milliseconds the first time, one the second; a slow disk is slow both times, five reads prove nothing."""
    assert expected is is_lazy(reads, first_s, second_s)
