"""What is found of the other nodes that serve the same model. Frozen values only."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FleetNode:
    """One node. name: for people, unique in its fleet. host, port: where it answers."""

    name: str
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class FleetFacts:
    """The fleet in the order of ranks, the same on every node.

    me: this node's place in `nodes`; None where it is not among them. found_by: what named the nodes; empty without a
    fleet.
    """

    me: int | None = None
    nodes: tuple[FleetNode, ...] = ()
    found_by: str = ""

    @property
    def others(self) -> tuple[FleetNode, ...]:
        """Return every node but this one."""
        return tuple(node for number, node in enumerate(self.nodes) if number != self.me)
