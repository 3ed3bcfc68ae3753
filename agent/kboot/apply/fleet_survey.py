"""How does every node of a fleet stand, asked now?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from kboot.apply.fleet_meeting import Ask
from kboot.apply.fleet_state import STAGES, NodeState, Stage
from kboot.checks.agreement import Difference, differences, sentence
from kboot.errors import KbootError
from kboot.facts.fleet_types import FleetFacts, FleetNode
from kboot.values import dataclass

_AT_ONCE = 64


@dataclass(frozen=True, slots=True)
class NodeView:
    """One node as it answered. state: None where it did not; error says why then."""

    rank: int
    node: FleetNode
    state: NodeState | None
    error: KbootError | None = None


@dataclass(frozen=True, slots=True)
class Survey:
    """All nodes at one time. found: in what those that state something differ."""

    fleet: FleetFacts
    views: tuple[NodeView, ...]
    found: tuple[Difference, ...]

    @property
    def whole(self) -> bool:
        """Whether every node answers, none has failed, and none differs in what stops a start."""
        stages = [view.state.stage if view.state else "failed" for view in self.views]
        return not {"failed", "stopped"} & set(stages) and not any(each.stops for each in self.found)

    def behind(self, stage: Stage) -> tuple[NodeView, ...]:
        """Return the nodes that are not in this stage or in one after it; one that has failed is in none."""
        after = STAGES[STAGES.index(stage) : STAGES.index("failed")]
        return tuple(view for view in self.views if view.state is None or view.state.stage not in after)


def survey(fleet: FleetFacts, ask: Ask) -> Survey:
    """Ask every node, side by side; one that does not answer is part of the answer."""

    def one(rank: int, node: FleetNode) -> NodeView:
        try:
            return NodeView(rank, node, ask(node))
        except KbootError as exc:
            return NodeView(rank, node, None, exc)

    with ThreadPoolExecutor(max(1, min(_AT_ONCE, len(fleet.nodes))), thread_name_prefix="fleet") as pool:
        views = tuple(pool.map(one, range(len(fleet.nodes)), fleet.nodes))
    statements = [view.state.statement for view in views if view.state is not None and view.state.statement is not None]
    return Survey(fleet, views, differences(statements))


def survey_body(profile: str, seen: Survey) -> dict[str, Any]:
    """Return a survey as plain values, for the document of `kboot fleet status`."""
    return {
        "profile": profile,
        "found_by": seen.fleet.found_by,
        "me": seen.fleet.me,
        "whole": seen.whole,
        "differences": [
            {
                "what": each.what,
                "usual": each.usual,
                "values": dict(each.values),
                "stops": each.stops,
                "text": sentence(each),
            }
            for each in seen.found
        ],
        "nodes": [node_body(view, seen.found) for view in seen.views],
    }


def node_body(view: NodeView, found: Sequence[Difference]) -> Mapping[str, Any]:
    """Return one node as plain values."""
    state = view.state
    odd = [each.what for each in found if state is not None and state.name in each.values]
    return {
        "rank": view.rank,
        "name": view.node.name,
        "host": view.node.host,
        "port": view.node.port,
        "answers": state is not None,
        "stage": state.stage if state else None,
        "phase": state.phase if state else None,
        "commit": state.commit if state else None,
        "have_bytes": state.have_bytes if state else None,
        "total_bytes": state.total_bytes if state else None,
        "why": state.why if state else None,
        "verdict": _verdict(view, odd),
        "error": view.error.to_json() if view.error else None,
    }


def _verdict(view: NodeView, odd: Sequence[str]) -> str:
    if view.state is None:
        return f"no answer: {view.error.message if view.error else 'unknown'}"
    if view.state.why:
        return view.state.why
    if odd:
        return f"differs: {', '.join(odd)}"
    return "agrees" if view.state.statement is not None else ""
