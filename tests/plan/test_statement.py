"""A node states what must be the same everywhere."""

from __future__ import annotations

from dataclasses import replace

from literals import hgx_h100

from kboot.engines.types import CacheKey
from kboot.facts.fleet_types import FleetNode, NodeStatement
from kboot.facts.types import Nic, NodeFacts, RdmaPort
from kboot.plan.group import Group
from kboot.plan.statement import statement_of
from kboot.profile.types import LayoutAsk

GROUP = Group(1, "a", (FleetNode("a", "a", 1), FleetNode("b", "b", 1)))
LAYOUT = LayoutAsk(name="16x-h100", gpu="H100", gpus_per_node=8, nodes=2)
KEY = CacheKey("key", {"driver": "580.95.05", "engine_version": "0.33.0", "package.torch": "2.11", "layout": "tp16"})


def stated(facts: NodeFacts, *, complete: bool = True) -> NodeStatement:
    return statement_of(facts, LAYOUT, KEY, GROUP, commit="c0ffee", manifest="f" * 64, caches_complete=complete)


def test_every_factor_of_the_kernel_caches_is_stated() -> None:
    """Commit and driver first; the layout by the name that people know."""
    values = stated(hgx_h100()).values

    assert ("commit", "manifest", "layout", "nodes", "driver", "engine_version") == tuple(values)[:6]
    assert ("c0ffee", "f" * 16, "16x-h100", "a, b") == tuple(values.values())[:4]
    assert "2.11" == values["package.torch"]
    assert "b" == stated(hgx_h100()).name


def test_caches_are_complete_or_not() -> None:
    """A node that would tune alone is told from those that would not."""
    assert "complete" == stated(hgx_h100()).values["caches"]
    assert "not complete" == stated(hgx_h100(), complete=False).values["caches"]


def test_the_network_is_what_ranks_talk_over() -> None:
    """RDMA ports with their rate; without any the fastest interface that is up."""
    ports = tuple(
        RdmaPort(f"mlx5_{n}", 1, state, "LinkUp", 400.0, "InfiniBand", 0, "")
        for n, state in enumerate(("ACTIVE", "DOWN"))
    )
    nics = (Nic("eth0", "up", 100000, 1500, 0, ""), Nic("eth1", "down", None, 1500, 0, ""))
    facts = replace(hgx_h100(), nics=nics)

    assert "1 of 2 RDMA ports active at 400 Gbit/s" == stated(replace(facts, rdma=ports)).values["network"]
    assert "fastest interface 100000 Mbit/s" == stated(facts).values["network"]
    assert "no rate known" == stated(replace(facts, nics=())).values["network"]


def test_memory_is_that_of_the_fullest_gpu() -> None:
    """An engine divides by the worst one; a node without GPUs states none."""
    facts = hgx_h100()
    gpus = tuple(replace(g, memory_total_bytes=100, memory_used_bytes=g.index) for g in facts.gpu.gpus)

    assert 100 - 7 == stated(replace(facts, gpu=replace(facts.gpu, gpus=gpus))).gpu_free_bytes
    assert None is stated(replace(facts, gpu=replace(facts.gpu, gpus=()))).gpu_free_bytes
