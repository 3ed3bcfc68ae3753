"""The simulated fleet keeps what no fleet can break: bytes, rates and floors."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

from kbench.fleet_sim import GB, MEASURED, WAYS, Exchange, World

WORLD = World()
ONE_S = WORLD.size_bytes / WORLD.origin


@pytest.mark.parametrize("nodes", [1, 4, 16, 64])
@pytest.mark.parametrize("way", ["owners", "swarm"])
def test_the_origin_gives_one_copy_and_nobody_is_faster_than_its_link(way: str, nodes: int) -> None:
    """However the pieces travel, they leave the origin once, and no sooner than it can give them."""
    ended = WAYS[way](WORLD, nodes)

    assert 1.0 == ended.origin_copies
    assert ended.all_s > max(ONE_S, WORLD.size_bytes / WORLD.node)


def test_alone_is_the_sum_of_all() -> None:
    """Four nodes, four copies, four times as long."""
    assert (4.0, pytest.approx(4 * ONE_S)) == (WAYS["alone"](WORLD, 4).origin_copies, WAYS["alone"](WORLD, 4).all_s)


def test_a_store_is_as_fast_as_a_node_until_it_is_full() -> None:
    """Forty nodes of 5 GB/s fill 200 GB/s."""
    assert pytest.approx(WORLD.size_bytes / WORLD.node) == WAYS["store"](WORLD, 40).all_s
    assert pytest.approx(2 * WORLD.size_bytes / WORLD.node) == WAYS["store"](WORLD, 80).all_s


def test_the_same_seed_gives_the_same_answer() -> None:
    """A figure in a document can be had again."""
    first, again, other = (Exchange(WORLD, 8, swarm=True, owners=1, seed=seed).run().all_s for seed in (1, 1, 2))

    assert first == again
    assert other == pytest.approx(first, rel=0.2)


def test_a_slow_node_does_not_hold_the_others() -> None:
    """What it would fetch is fetched by others; it needs its own time for what it lacks."""
    ended = WAYS["owners"](World(slow=1), 16)

    assert ended.fast_s < ended.all_s
    assert ended.all_s > 10 * WORLD.size_bytes / WORLD.node * 0.9


def test_the_model_is_near_what_was_measured() -> None:
    """Within a third of it, both ways: what is nearer than that to each other is the same."""
    owners, torrent = WAYS["owners"](MEASURED, 4).all_s, WAYS["swarm"](MEASURED, 4).all_s

    assert 2.15 * GB / MEASURED.origin < owners < 14.4 * 1.33
    assert 2.15 * GB / MEASURED.origin < torrent < 14.5 * 1.33
