"""Can the GPUs read and write each other's memory?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from kboot.checkpoint import CheckpointFacts
from kboot.checks.told import virtual
from kboot.checks.types import ON_A_NODE, Check, Finding
from kboot.checks.words import count, some
from kboot.facts.types import NodeFacts
from kboot.profile.types import Profile

Pair = tuple[int, int]


def run(facts: NodeFacts, profile: Profile | None, checkpoint: CheckpointFacts | None) -> Finding:
    """GPUs with NVLinks up must all reach each other; others on one NUMA node as well as their neighbours do."""
    cuda = facts.asked.cuda
    if len(facts.gpu.gpus) < 2:
        return Finding("skip", "there are no two GPUs")
    if cuda is None:
        return Finding("skip", "CUDA was not asked: see gpu.cuda_init")
    if cuda.state != "ok":
        return Finding("unknown", f"CUDA did not start ({cuda.state}): see gpu.cuda_init")
    if facts.links.confidential not in (None, "off"):
        return Finding("skip", "confidential computing keeps GPUs apart: see gpu.cc_mode")
    if any(g.fabric and g.fabric.state in ("not-started", "in-progress") for g in facts.health.gpus):
        return Finding("skip", "the fabric is not set up: see fabric.state")
    reach = reaches(facts)
    if not reach:
        return Finding("skip", "CUDA lists no two GPUs here (MIG, or CUDA_VISIBLE_DEVICES)")
    linked = {g.index for g in facts.health.gpus if g.nvlinks and any(g.nvlinks)}
    cut = sorted(pair for pair, can in reach.items() if not can and set(pair) <= linked)
    if cut:
        return _cut("fail", cut, "NVLinks are up on both")
    if not any(reach.values()):
        why = "the hypervisor does not offer it" if virtual(facts) else "these parts do not offer it over PCIe"
        return Finding("skip", f"no GPU reaches another: {why}")
    odd = _odd(facts, reach)
    if odd:
        return _cut("warn", odd, "others on the same NUMA node reach each other")
    if all(reach.values()):
        here = {index for pair in reach for index in pair}
        return Finding("ok", f"{count(len(here), 'GPU')}, each reaches every other")
    able = f"{sum(reach.values())} of {count(len(reach), 'pair')} reach each other"
    return Finding("ok", f"{able}; the others are on two NUMA nodes, or nothing says where")


def reaches(facts: NodeFacts) -> Mapping[Pair, bool]:
    """Return of each pair of GPUs of one product whether both reach the other, as CUDA says."""
    gpu_of = {g.bus_id: g for g in facts.gpu.gpus if g.bus_id and not g.mig}  # slices never reach each other
    found: dict[Pair, bool] = {}
    for device in facts.asked.cuda.devices if facts.asked.cuda else ():
        for bus_id, can in device.peers.items():
            one, other = gpu_of.get(device.bus_id), gpu_of.get(bus_id)
            if one is not None and other is not None and one.name == other.name and one.index != other.index:
                pair = (min(one.index, other.index), max(one.index, other.index))
                found[pair] = found.get(pair, True) and can
    return found


def _odd(facts: NodeFacts, reach: Mapping[Pair, bool]) -> list[Pair]:
    """Return the pairs on one NUMA node that do not reach each other where another pair of that node does."""
    node_of = {g.index: g.numa_node for g in facts.gpu.gpus}
    here = {pair: node_of[pair[0]] for pair in reach if _same_node(node_of, pair)}
    good = {node for pair, node in here.items() if reach[pair]}
    return sorted(pair for pair, node in here.items() if not reach[pair] and node in good)


def _same_node(node_of: Mapping[int, int | None], pair: Pair) -> bool:
    return node_of[pair[0]] is not None and node_of[pair[0]] == node_of[pair[1]]


def _cut(status: Literal["warn", "fail"], pairs: list[Pair], but: str) -> Finding:
    named = some(f"{a}-{b}" for a, b in pairs)
    return Finding(
        status,
        f"{count(len(pairs), 'pair')} of GPUs cannot reach each other ({named}), but {but}",
        wanted="peer access between them",
        why="NCCL copies through host memory: collectives are many times slower, without an error",
        hint="see fabric.state, pci.acs and iommu.mode; `nvidia-smi topo -p2p r` gives the driver's reason",
    )


CHECK = Check(
    id="gpu.p2p",
    asks="Can the GPUs read and write each other's memory?",
    source="cuDeviceCanAccessPeer of each pair; NVML link states",
    modes=ON_A_NODE,
    run=run,
)
