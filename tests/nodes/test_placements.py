"""Real machines, each with the CPUs that its workers get: the golden file says what, and a change of it is seen."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from kboot.engines.types import CpuPlacement
from kboot.facts.types import NodeFacts
from kboot.plan.placement import place
from kboot.profile.types import CpuAsk
from nodes.generate import as_list, write
from nodes.machines import MACHINES
from nodes.plugin import RECORDED, RECORDED_NAMES, facts_of

GOLDEN = Path(__file__).parent / "golden"
WORKERS = {"rtx4090-shared": 6}
"""Workers where they are fewer than GPUs; machines without a GPU get two."""


@pytest.fixture(scope="module")
def facts_by_name(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], NodeFacts]:
    """Return a function from a machine's name to its facts, read once."""

    @cache
    def read(name: str) -> NodeFacts:
        recorded = RECORDED / name
        return facts_of(recorded if recorded.is_dir() else write(MACHINES[name], tmp_path_factory.mktemp(name)))

    return read


def text(facts: NodeFacts, placement: CpuPlacement) -> str:
    """Return facts and placement in lines that a person can check against the machine's documents."""
    cpu = facts.cpu
    lines = [f"CPUs {as_list(cpu.online)}, {len(set(cpu.core_of.values()))} cores, allowed {as_list(cpu.allowed)}"]
    lines += [f"node {n.number}: {as_list(n.cpus) or 'no CPUs'}" for n in facts.numa]
    lines += [f"GPU {g.index} {g.bus_id}: node {g.numa_node}" for g in facts.gpu.gpus]
    lines.append("")
    for w in placement.workers:
        serve = f", serves on {as_list(w.serve_cpus)}" if w.serve_cpus else ""
        lines.append(
            f"worker {w.worker} GPU {w.gpu}: {as_list(w.cpus)}: {w.threads} threads, memory {w.memory_node}{serve}"
        )
    lines.append(f"front ends: {as_list(placement.housekeeping) or 'no CPUs of their own'}")
    return "\n".join([*lines, *(f"note: {note}" for note in placement.notes), ""])


def placed(name: str, facts: NodeFacts) -> CpuPlacement:
    """Return the placement of the machine's usual number of workers."""
    return place(facts, WORKERS.get(name, len(facts.gpu.gpus) or 2), CpuAsk())


@pytest.mark.parametrize("name", sorted((*MACHINES, *RECORDED_NAMES)))
def test_the_whole_placement(facts_by_name: Callable[[str], NodeFacts], name: str) -> None:
    """What was found and who gets which CPUs are those of the golden file (KBOOT_UPDATE_GOLDEN=1 rewrites it)."""
    facts = facts_by_name(name)
    found = text(facts, placed(name, facts))
    golden = GOLDEN / f"{name}.txt"
    if os.environ.get("KBOOT_UPDATE_GOLDEN"):
        golden.parent.mkdir(exist_ok=True)
        golden.write_text(found)

    assert golden.read_text() == found


@pytest.mark.parametrize("name", sorted((*MACHINES, *RECORDED_NAMES)))
def test_every_placement_keeps_the_promises(facts_by_name: Callable[[str], NodeFacts], name: str) -> None:
    """Inside the mask, disjoint, no core shared, near the GPU where its node has a core, memory on a node with CPUs."""
    facts = facts_by_name(name)
    placement = placed(name, facts)
    sets = [set(w.cpus) for w in placement.workers]

    assert all(s and s <= set(facts.cpu.allowed) for s in sets)
    assert sum(map(len, sets)) + len(placement.housekeeping) == len(set().union(*sets, placement.housekeeping))
    cores = [{facts.cpu.core_of[cpu] for cpu in s} for s in sets]
    assert sum(map(len, cores)) == len(set().union(*cores))
    with_cpus = {n.number: set(n.cpus) & set(facts.cpu.allowed) for n in facts.numa if n.cpus}
    for share, cpus in zip(placement.workers, sets, strict=True):
        assert share.memory_node is None or share.memory_node in with_cpus
        if share.memory_node is not None and with_cpus[share.memory_node]:
            assert cpus <= with_cpus[share.memory_node]
