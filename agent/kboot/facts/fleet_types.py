"""What is found of the other nodes that serve the same model. Frozen values only."""

from __future__ import annotations

from collections.abc import Mapping

from kboot.values import dataclass


@dataclass(frozen=True, slots=True)
class FleetNode:
    """One node. name: for people, unique in its fleet. host, port: where it answers."""

    name: str
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class NodeStatement:
    """What a node says of itself before it starts its part of an engine.

    values: what must be the same on all nodes, by name ("commit", "driver"). gpu_free_bytes: of its GPU with the least
    free memory; None without GPUs, or where it could not be read.
    """

    name: str
    values: Mapping[str, str]
    gpu_free_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class FleetFacts:
    """The fleet in the order of ranks, the same on every node.

    me: this node's place in `nodes`; None where it is not among them. found_by: what named the nodes; empty without a
    fleet. statements: of the nodes that met before the last start, at stated_unix_s; empty before any.
    interface, address: of this node on the way to the others; empty where there is no way yet.
    """

    me: int | None = None
    nodes: tuple[FleetNode, ...] = ()
    found_by: str = ""
    statements: tuple[NodeStatement, ...] = ()
    stated_unix_s: float = 0.0
    interface: str = ""
    address: str = ""

    @property
    def others(self) -> tuple[FleetNode, ...]:
        """Return every node but this one."""
        return tuple(node for number, node in enumerate(self.nodes) if number != self.me)


@dataclass(frozen=True, slots=True)
class FleetRecord:
    """What a node keeps of the last meeting. boot_id: of the kernel it was in. started: it ended with a start."""

    boot_id: str
    unix_s: float
    started: bool
    commit: str
    statements: tuple[NodeStatement, ...]
