"""What does this node tell the others of itself: how far it is, what it states, and, on the head, what is decided?"""

from __future__ import annotations

import json
import secrets
import threading
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from typing import Any, Literal

from kboot.events import Emit, Event, FileDone, FileProgress, PhaseFinished, PhaseStarted
from kboot.facts.fleet_record import statement_from_json, statement_to_json
from kboot.facts.fleet_types import NodeStatement
from kboot.values import dataclass

STATE_TARGET = "/kboot/1/state"

Stage = Literal[
    "preparing",
    "ready",  # prepared, and waits for the others
    "accepted",  # the head's proposal holds for this node
    "started",  # released
    "failed",
    "stopped",  # by an operator
]
STAGES: tuple[Stage, ...] = ("preparing", "ready", "accepted", "started", "failed", "stopped")
Verdict = Literal["proposed", "start", "refuse", "gave-up"]
_VERDICTS: tuple[Verdict, ...] = ("proposed", "start", "refuse", "gave-up")
_LONGEST = 2000
_MOST = 4096
_MOST_NUMBER = 1 << 63


@dataclass(frozen=True, slots=True)
class Decision:
    """What the head decided. round: new for every proposal. runs: the run of each node it holds for, by name."""

    round: str
    verdict: Verdict
    runs: Mapping[str, str]
    why: tuple[str, ...] = ()
    statements: tuple[NodeStatement, ...] = ()


@dataclass(frozen=True, slots=True)
class NodeState:
    """One node at one time.

    run: new for every process, so that one that was started again is not taken for the one before. round: of the
    proposal that it accepted. phase: what kboot does there now. have_bytes, total_bytes: of what this boot fetches;
    what was on the disk before it is in neither. moved: counts up whenever work gets on.
    """

    name: str
    run: str
    stage: Stage
    commit: str = ""
    phase: str = ""
    have_bytes: int = 0
    total_bytes: int = 0
    moved: int = 0
    why: str = ""
    round: str = ""
    statement: NodeStatement | None = None
    decision: Decision | None = None


@dataclass(slots=True)
class FleetState:
    """This node's state: written by the boot, read by whoever asks. For any thread."""

    name: str
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _now: NodeState = field(init=False)
    _base: dict[str, int] = field(default_factory=dict)
    _done: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._now = NodeState(self.name, secrets.token_hex(8), "preparing")

    def now(self) -> NodeState:
        """Return the state now."""
        with self._lock:
            return self._now

    def change(self, **values: Any) -> None:
        """Set fields of the state."""
        with self._lock:
            self._now = replace(self._now, **values)

    def moved(self) -> None:
        """Say that work got on."""
        with self._lock:
            self._now = replace(self._now, moved=self._now.moved + 1)

    def caches_complete(self) -> None:
        """State from now on that the kernel caches are complete: a node that joins later is compared with that."""
        with self._lock:
            stated = self._now.statement
            if stated is not None and stated.values.get("caches") not in (None, "complete"):
                values = {**stated.values, "caches": "complete"}
                self._now = replace(self._now, statement=replace(stated, values=values))

    def begin_again(self) -> None:
        """Begin as another run: what the earlier one accepted does not bind this one."""
        with self._lock:
            self._now = NodeState(self.name, secrets.token_hex(8), "preparing", commit=self._now.commit)
            self._base.clear()
            self._done.clear()

    def page(self) -> bytes:
        """Return the state as the document that other nodes read."""
        return state_to_bytes(self.now())

    def follow(self, emit: Emit) -> Emit:
        """Return an Emit that passes everything on and keeps this state up with it."""

        def told(event: Event) -> None:
            self._take(event)
            emit(event)

        return told

    def _take(self, event: Event) -> None:
        with self._lock:
            now = self._now
            match event:
                case PhaseStarted(phase=phase, total_bytes=total):
                    self._now = replace(now, phase=phase, moved=now.moved + 1)
                    if phase == "fetch":
                        self._now = replace(self._now, total_bytes=total)
                case PhaseFinished():
                    self._now = replace(now, moved=now.moved + 1)
                case FileProgress(phase="fetch", path=path, done_bytes=done):
                    base = self._base[path] = min(self._base.get(path, done), done)  # the first number was here before
                    self._fetched(path, done - base)
                case FileDone(phase="fetch", path=path, size_bytes=size, reused_bytes=reused):
                    self._fetched(path, max(0, size - reused))
                case FileProgress():
                    self._now = replace(now, moved=now.moved + 1)
                case _:
                    pass

    def _fetched(self, path: str, size_bytes: int) -> None:
        """Take note of what has come of one file in this boot: the number that `kboot status` shows on the node."""
        self._done[path] = size_bytes
        now, have = self._now, sum(self._done.values())
        have = min(have, now.total_bytes) if now.total_bytes else have
        self._now = replace(now, have_bytes=have, moved=now.moved + 1)


def state_to_bytes(state: NodeState) -> bytes:
    """Return a state as JSON."""
    document: dict[str, Any] = {
        "schema": 1,
        "kind": "fleet-state",
        **{key: getattr(state, key) for key in _PLAIN},
        "statement": None if state.statement is None else statement_to_json(state.statement),
        "decision": None if state.decision is None else _decision_to_json(state.decision),
    }
    return json.dumps(document, separators=(",", ":")).encode()


_PLAIN = (
    *("name", "run", "stage", "commit", "phase"),
    *("have_bytes", "total_bytes", "moved", "why", "round"),
)


def state_from_json(document: Mapping[str, Any]) -> NodeState:
    """Return what another node tells.

    Raises:
        ValueError: it is not of that form.
    """
    if (document.get("schema"), document.get("kind")) != (1, "fleet-state"):
        raise ValueError("another version of kboot answers")
    stage = document.get("stage")
    if stage not in STAGES:
        raise ValueError(f"stage is {str(stage)[:40]!r}")
    statement, decision = document.get("statement"), document.get("decision")
    return NodeState(
        name=_short(document, "name"),
        run=_short(document, "run"),
        stage=stage,
        commit=_short(document, "commit"),
        phase=_short(document, "phase"),
        have_bytes=_number(document, "have_bytes"),
        total_bytes=_number(document, "total_bytes"),
        moved=_number(document, "moved"),
        why=_short(document, "why"),
        round=_short(document, "round"),
        statement=None if statement is None else statement_from_json(statement),
        decision=None if decision is None else _decision_from_json(decision),
    )


def _decision_to_json(decision: Decision) -> dict[str, Any]:
    return {
        "round": decision.round,
        "verdict": decision.verdict,
        "runs": dict(decision.runs),
        "why": [text[:_LONGEST] for text in decision.why[:64]],
        "statements": [statement_to_json(each) for each in decision.statements],
    }


def _decision_from_json(value: object) -> Decision:
    if not isinstance(value, dict):
        raise ValueError("decision is no table")
    verdict, runs, stated = (value.get(key) for key in ("verdict", "runs", "statements"))
    if verdict not in _VERDICTS or not isinstance(runs, dict):
        raise ValueError("decision is not of its form")
    if not isinstance(stated, Sequence) or isinstance(stated, str) or len(stated) > _MOST:
        raise ValueError("statements are no list")
    return Decision(
        _short(value, "round"),
        verdict,
        dict(zip(runs, _texts(list(runs.values())), strict=True)),
        _texts(value.get("why")),
        tuple(statement_from_json(each) for each in stated),
    )


def _texts(value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or len(value) > _MOST:
        raise ValueError("wants a list of texts")
    if not all(isinstance(text, str) and len(text) <= _LONGEST for text in value):
        raise ValueError("wants short texts")
    return tuple(value)


def _short(document: Mapping[str, Any], key: str) -> str:
    value = document.get(key)
    if not isinstance(value, str) or len(value) > _LONGEST:
        raise ValueError(f"{key} is no short text")
    return value


def _number(document: Mapping[str, Any], key: str) -> int:
    value = document.get(key)
    if type(value) is not int or not 0 <= value < _MOST_NUMBER:
        raise ValueError(f"{key} is no number")
    return value
