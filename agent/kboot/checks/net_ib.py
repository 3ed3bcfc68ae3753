"""Are all RDMA ports up, at the rate of their equals?"""

from __future__ import annotations

from kboot.checkpoint import CheckpointFacts
from kboot.checks.asked import layout_for
from kboot.checks.rates import TOLERATED, rates_here
from kboot.checks.types import ON_A_NODE, Check, Finding
from kboot.checks.words import count, some
from kboot.facts.types import NodeFacts
from kboot.profile.types import Profile


def run(facts: NodeFacts, profile: Profile | None, checkpoint: CheckpointFacts | None) -> Finding:
    """Compare ports of one link layer; where none is up the fabric is not in use."""
    ports = facts.rdma
    if not ports:
        return Finding("skip", "there is no RDMA device")
    odd: list[str] = []
    for layer in sorted({p.link_layer for p in ports}):
        equals = [p for p in ports if p.link_layer == layer]
        best = max((p.rate_gbit_s or 0.0 for p in equals if p.state == "ACTIVE"), default=0.0)
        if any(p.state == "ACTIVE" for p in equals):
            odd += [f"{p.device}/{p.port} {p.state} ({p.phys_state})" for p in equals if p.state != "ACTIVE"]
            slow = [p for p in equals if p.state == "ACTIVE" and p.rate_gbit_s and p.rate_gbit_s < best / 2]
            odd += [f"{p.device}/{p.port} at {p.rate_gbit_s:g} of {best:g} Gbit/s" for p in slow if p.rate_gbit_s]
    layout = layout_for(facts.gpu, profile) if profile else None
    several = layout is not None and layout.nodes > 1
    if not odd and any(p.state == "ACTIVE" for p in ports):
        below = _below_class(facts) if several else []
        return _slow(below) if below else Finding("ok", f"{count(len(ports), 'port')} active")
    if not odd and not several:
        return Finding("skip", "no RDMA port is up, and no layout spans several nodes")
    return Finding(
        "fail" if several else "warn",
        some(odd) or f"none of {count(len(ports), 'RDMA port')} is active",
        wanted="every port ACTIVE at full rate",
        why="a collective over several nodes runs at the pace of the worst port, or hangs",
        hint="`ibstat`, `ibdiagnet`; reseat the cable or reset the port; compare with the switch's port",
    )


def _slow(ports: list[str]) -> Finding:
    return Finding(
        "warn",
        some(ports),
        wanted="the rate of sound nodes with these GPUs",
        why="a collective over nodes takes longer in proportion, in every step that waits for one",
        hint="see that cables, cards and the switch's ports are of one generation (`ibstat`, `mlxlink -d DEVICE`)",
    )


def _below_class(facts: NodeFacts) -> list[str]:
    """Return the InfiniBand ports that are slower than those of sound nodes with these GPUs."""
    rates = rates_here(facts)
    if rates is None:
        return []
    ports = [p for p in facts.rdma if p.link_layer == "InfiniBand" and p.state == "ACTIVE" and p.rate_gbit_s]
    return [
        f"{p.device}/{p.port} at {p.rate_gbit_s:g} of {rates.port_gbit_s:g} Gbit/s"
        for p in ports
        if p.rate_gbit_s and p.rate_gbit_s < TOLERATED * rates.port_gbit_s
    ]


CHECK = Check(
    id="net.ib",
    asks="Are all RDMA ports up, at the rate of their equals?",
    source="/sys/class/infiniband/*/ports/*/{state,phys_state,rate}",
    modes=ON_A_NODE,
    run=run,
)
