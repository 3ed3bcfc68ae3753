"""Which nodes of the fleet serve one model together with this one, and what is this node's part?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kboot.errors import FactMissing
from kboot.values import dataclass

if TYPE_CHECKING:
    from kboot.facts.fleet_types import FleetFacts, FleetNode

ALONE = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class Group:
    """Nodes that one engine spans. rank: of this node. head: where rank 0 is.

    members: in the order of ranks; empty where nobody found them, as on a node that serves alone.
    """

    rank: int = 0
    head: str = ALONE
    members: tuple[FleetNode, ...] = ()


def is_whole(fleet: FleetFacts, nodes: int) -> bool:
    """Return whether the fleet can be divided into groups of so many nodes, this node in one of them."""
    return bool(fleet.nodes) and len(fleet.nodes) % nodes == 0 and fleet.me is not None


def group_of(fleet: FleetFacts, nodes: int, rank: int | None = None, head: str | None = None) -> Group:
    """Return this node's group: the fleet in its order, cut into pieces of `nodes`.

    rank, head: as an operator gave them; they are taken as they are, and then nobody is waited for.

    Raises:
        FactMissing: the layout spans several nodes, and discovery did not find them all, or not this one.
    """
    if nodes == 1 or rank is not None or head is not None or not fleet.found_by:
        return Group(rank or 0, head or ALONE)
    if not is_whole(fleet, nodes) or fleet.me is None:
        raise _incomplete(fleet, nodes)
    first = fleet.me // nodes * nodes
    members = fleet.nodes[first : first + nodes]
    return Group(fleet.me - first, members[0].host, members)


def _incomplete(fleet: FleetFacts, nodes: int) -> FactMissing:
    names = ", ".join(node.name for node in fleet.nodes[:8]) or "none"
    if fleet.nodes and fleet.me is None:
        return FactMissing(
            "not-in-fleet",
            f"this node is none of the {len(fleet.nodes)} nodes of {fleet.found_by}",
            where=(f"nodes: {names}",),
            hint="name this node's address as fleet.bind, or its rank with --node-rank and --head-address",
        )
    return FactMissing(
        "fleet-incomplete",
        f"the layout spans {nodes} nodes, {fleet.found_by} gives {len(fleet.nodes)}",
        where=(f"nodes: {names}",),
        hint="`kboot facts -v` shows the nodes that are found, and why not",
    )
