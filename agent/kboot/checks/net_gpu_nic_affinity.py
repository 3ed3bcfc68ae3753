"""Has every GPU a network card as near as its equals have?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from kboot.checkpoint import CheckpointFacts
from kboot.checks.asked import layout_for
from kboot.checks.told import virtual
from kboot.checks.types import ON_A_NODE, Check, Finding
from kboot.checks.words import count, ranges, some
from kboot.facts.types import Gpu, NodeFacts, RdmaPort
from kboot.profile.types import Profile

Nearness = Literal["PIX", "PXB", "PHB", "SYS"]
_ORDER: tuple[Nearness, ...] = ("PIX", "PXB", "PHB", "SYS")
"""As `nvidia-smi topo -m` names them: one switch, several switches, the socket's host bridges, another socket."""


def run(facts: NodeFacts, profile: Profile | None, checkpoint: CheckpointFacts | None) -> Finding:
    """Compare the GPUs with each other: what matters is the one that is farther from its card than the rest."""
    ports = [port for port in facts.rdma if port.state == "ACTIVE" and port.bus_id]
    gpus = [gpu for gpu in facts.gpu.gpus if gpu.bus_id]
    if facts.gpu.nvml not in ("ok", "no-library", "no-driver"):
        return Finding("unknown", f"NVML did not answer ({facts.gpu.nvml})")
    if len(gpus) < 2 or len(ports) < 2:
        return Finding("skip", "there are no two GPUs, or no two RDMA ports that are up")
    if virtual(facts) and not facts.links.path_of:
        return Finding("skip", "this virtual machine does not show how its devices are connected")
    near = {gpu.index: nearest(gpu, ports, facts) for gpu in gpus}
    best = min(near.values(), key=_ORDER.index)
    far = {index: each for index, each in near.items() if _ORDER.index(each) > _ORDER.index(best) and each == "SYS"}
    if not far:
        return Finding("ok", f"nearest of {count(len(ports), 'RDMA port')}: {_levels(near)}")
    layout = layout_for(facts.gpu, profile) if profile else None
    several = layout is not None and layout.nodes > 1
    if profile is not None and not several:
        return Finding("ok", f"nearest of {count(len(ports), 'RDMA port')}: {_levels(near)}; no layout spans nodes")
    return Finding(
        "warn",
        f"GPU {ranges(far)} has no RDMA port on its socket, others have one at {best}",
        wanted=f"a port at {best} for every GPU",
        why="its messages cross the link between the sockets: collectives over nodes run at its pace",
        hint="`nvidia-smi topo -m`; see whether a card is missing (`lspci -d 15b3:`) or sits in the wrong slot",
    )


def nearest(gpu: Gpu, ports: list[RdmaPort], facts: NodeFacts) -> Nearness:
    """Return how near the nearest port is."""
    return min((_nearness(gpu, port, facts) for port in ports), key=_ORDER.index, default="SYS")


def _nearness(gpu: Gpu, port: RdmaPort, facts: NodeFacts) -> Nearness:
    one, other = facts.links.path_of.get(gpu.bus_id, ()), facts.links.path_of.get(port.bus_id, ())
    if common := sum(1 for a, b in zip(one, other, strict=False) if a == b):
        below = len(one) + len(other) - 2 * common
        return "PIX" if below <= _BELOW_ONE_SWITCH else "PXB"
    sockets = {_socket(facts, gpu.numa_node), _socket(facts, port.numa_node)}
    return "PHB" if len(sockets) == 1 or None in sockets else "SYS"  # what nobody says is not far


def _socket(facts: NodeFacts, node: int | None) -> int | None:
    """Return the package that a NUMA node's CPUs are in: one may have several nodes (NPS4, SNC)."""
    cpus = next((n.cpus for n in facts.numa if n.number == node), ())
    return next((facts.cpu.core_of[cpu][0] for cpu in cpus if cpu in facts.cpu.core_of), node)


_BELOW_ONE_SWITCH = 2
"""The downstream ports of one switch: one bridge for each of both."""


def _levels(near: Mapping[int, Nearness]) -> str:
    return some(f"{level} for {count(n, 'GPU')}" for level in _ORDER if (n := list(near.values()).count(level)))


CHECK = Check(
    id="net.gpu_nic_affinity",
    asks="Has every GPU a network card as near as its equals have?",
    source="the devices' places in /sys/devices; their numa_node",
    modes=ON_A_NODE,
    run=run,
)
