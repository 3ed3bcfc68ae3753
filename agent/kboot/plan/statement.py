"""What does this node state before it starts its part of an engine?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kboot import __version__
from kboot.facts.fleet_types import NodeStatement

if TYPE_CHECKING:
    from kboot.engines.types import CacheKey
    from kboot.facts.types import GpuFacts, NodeFacts
    from kboot.plan.group import Group
    from kboot.profile.types import LayoutAsk

_ELSEWHERE = frozenset({"layout", "commit"})  # stated by themselves, in the form that people know


def statement_of(
    facts: NodeFacts,
    layout: LayoutAsk,
    key: CacheKey,
    group: Group,
    *,
    commit: str,
    manifest: str,
    caches_complete: bool,
) -> NodeStatement:
    """Return what must be the same on all nodes of the group, the likeliest causes of trouble first.

    manifest: digest of the list of files. caches_complete: this key's kernel caches are those of a boot that reached
    ready. One node that tunes for half an hour while the others wait in a collective ends the boot of all.
    """
    factors = {name: text for name, text in sorted(key.factors.items()) if name not in _ELSEWHERE}
    values: dict[str, str] = {
        "commit": commit,
        "manifest": manifest[:16],
        "layout": layout.name,
        "nodes": ", ".join(node.name for node in group.members),
        **{name: factors[name] for name in ("driver", "cuda", "engine_version") if name in factors},
        **factors,
        "caches": "complete" if caches_complete else "not complete",
        "network": _network(facts),
        "kboot": __version__,
    }
    return NodeStatement(group.members[group.rank].name, values, _free_bytes(facts.gpu))


def _network(facts: NodeFacts) -> str:
    """Return the state of what ranks talk over: the RDMA ports; where there are none, the fastest interface."""
    if facts.rdma:
        active = [port for port in facts.rdma if port.state == "ACTIVE"]
        rates = sorted({f"{port.rate_gbit_s:g}" for port in active if port.rate_gbit_s is not None})
        at = f" at {'/'.join(rates)} Gbit/s" if rates else ""
        return f"{len(active)} of {len(facts.rdma)} RDMA ports active{at}"
    fastest = max((nic.rate_mbit_s or 0 for nic in facts.nics if nic.state == "up"), default=0)
    return f"fastest interface {fastest} Mbit/s" if fastest else "no rate known"


def _free_bytes(gpu: GpuFacts) -> int | None:
    free = [
        each.memory_total_bytes - each.memory_used_bytes
        for each in gpu.gpus
        if each.memory_total_bytes is not None and each.memory_used_bytes is not None
    ]
    return min(free, default=None)
