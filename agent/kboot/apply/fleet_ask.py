"""How is another node asked for its state?"""

from __future__ import annotations

from collections.abc import Callable

from kboot.apply.fleet_state import STATE_TARGET, NodeState, state_from_json
from kboot.errors import SourceError
from kboot.facts.fleet_types import FleetNode
from kboot.sources.fleet_auth import FleetKey
from kboot.sources.peers import Peer

_SILENT_S = 5.0


def asker(key: FleetKey) -> Callable[[FleetNode], NodeState]:
    """Return a function that asks a node for its state; it raises SourceError and nothing else. For any thread."""
    peers: dict[FleetNode, Peer] = {}

    def ask(node: FleetNode) -> NodeState:
        peer = peers.get(node)
        if peer is None:
            peer = peers.setdefault(node, Peer(node.name, node.host, node.port, key, _SILENT_S))
        try:
            return state_from_json(peer.ask(STATE_TARGET))
        except ValueError as exc:
            raise SourceError("peer-answer-not-valid", f"{node.name} does not tell its state: {exc}") from exc

    return ask
