"""Do all nodes start their part of an engine together, or none of them?

Nodes only ask, nobody is told anything: rank 0 looks at all others and decides, and the others look at rank 0. A start
takes two steps. Rank 0 proposes it to the processes that it sees ready and of one mind; each that finds itself named
accepts; when all have, the start is released. A process that ended or was started again meanwhile is not the one that
was named: the proposal falls, and the next one begins.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from kboot.addresses import host_port
from kboot.apply.fleet_state import Decision, FleetState, NodeState, Stage
from kboot.checks.agreement import differences, odd_nodes, sentence
from kboot.checks.words import some
from kboot.errors import ActionFailed, KbootError, NotReady
from kboot.events import Emit, Notice, PhaseStarted
from kboot.facts.fleet_types import FleetNode
from kboot.host.clock import monotonic_s
from kboot.quantities import show_bytes

Ask = Callable[[FleetNode], NodeState]
"""What a node tells of itself; raises KbootError. Called from several threads."""
Seen = Mapping[str, NodeState | KbootError]

_AT_ONCE = 64
_TELLING = frozenset({"peer-refuses", "peer-not-ours", "peer-answer-not-valid", "fleet-other-node"})
_TELL_S = 60.0
_SILENT_S = 10.0  # a node that does not answer for so long is not counted as ready any more
_HEAR_S = 8.0  # less than the head stays
_LINGER_S = 10.0  # the head stays so long for the others to see what was decided


@dataclass(slots=True)
class Meeting:
    """One meeting of a group. members: in the order of ranks; rank 0 is the head.

    timeout_s: how long nothing may get on anywhere before this node gives up. pace_s: between two looks.
    refuse: nodes that differ are not started. heard: the last decision that was about this node.
    """

    members: Sequence[FleetNode]
    rank: int
    state: FleetState
    ask: Ask
    timeout_s: float
    emit: Emit
    stop: threading.Event
    refuse: bool = True
    pace_s: float = 0.5
    clock: Callable[[], float] = monotonic_s
    heard: Decision | None = None
    _looked_s: float = 0.0
    _until_s: float = 0.0
    _tell_at_s: float = 0.0
    _best: dict[str, tuple[int, int]] = field(default_factory=dict)
    _answered_s: dict[str, float] = field(default_factory=dict)
    _last: dict[str, NodeState] = field(default_factory=dict)
    _refused: dict[str, KbootError] = field(default_factory=dict)

    def meet(self) -> Decision:
        """Return the decision to start, when it is this node's turn to.

        Raises:
            NotReady: fleet-not-together, when somebody is missing for too long; interrupted.
            ActionFailed: fleet-disagrees, with the odd node and its value.
        """
        self._until_s = self.clock() + self.timeout_s
        self.state.change(stage="ready", why="")
        try:
            decision = self._lead() if self.rank == 0 else self._follow()
        except KbootError as exc:
            self._give_up(exc)
            raise
        return decision

    def _give_up(self, error: KbootError) -> None:
        """Say how this meeting ended; the head also tells those that it knows, and that nobody else will tell."""
        self.state.change(stage="stopped" if self.stop.is_set() else "failed", why=error.message[:500])
        if self.rank:
            return
        decision = self.state.now().decision
        if decision is None or decision.verdict != "refuse":
            runs = {name: state.run for name, state in self._last.items()}
            why = (error.message, *error.where)
            self.state.change(decision=Decision(secrets.token_hex(8), "gave-up", runs, why))
        self._linger("failed")

    def _lead(self) -> Decision:
        while True:
            seen = self._look(self.members[1:])
            decision = self.state.now().decision
            if decision is None:
                decision = self._proposal(seen)
            elif (lost := self._lost(decision, seen)) is not None:
                self.emit(Notice("fleet.proposal_fell", lost))
                decision = None
            elif all(_accepts(seen[node.name], decision) for node in self.members[1:]):
                decision = Decision(decision.round, "start", decision.runs, (), decision.statements)
                self.heard = decision
                self.state.change(decision=decision, stage="started")
                self._linger("started")
                return decision
            self.state.change(decision=decision)
            self._pause(seen)

    def _proposal(self, seen: Seen) -> Decision | None:
        """Return a proposal to the others when all are ready and of one mind; None while they are not.

        Raises:
            ActionFailed: they are ready and differ.
        """
        mine = self.state.now()
        states = [mine, *(state for state in seen.values() if isinstance(state, NodeState) and _is_ready(state))]
        statements = tuple(state.statement for state in states if state.statement is not None)
        if len(statements) < len(self.members):
            return None
        runs = {state.name: state.run for state in states}
        waiting = [s.statement for s in states if s.statement is not None and s.stage != "started"]
        found = differences(waiting)
        for difference in found:
            self.emit(Notice("fleet.differs", sentence(difference)))
        stops = [each for each in found if each.stops]
        if not stops or not self.refuse:
            # Nodes that have started before are as they were then: they may be about to be started again.
            agreed = not self.refuse or not any(each.stops for each in differences(statements))
            return Decision(secrets.token_hex(8), "proposed", runs, (), statements) if agreed else None
        why = tuple(sentence(each) for each in stops)
        self.heard = Decision(secrets.token_hex(8), "refuse", runs, why, statements)
        self.state.change(decision=self.heard)
        raise disagreement(why, sorted(odd_nodes(stops)))

    def _lost(self, decision: Decision, seen: Seen) -> str | None:
        """Return why a proposal does not hold any more; None while it does."""
        for name, state in seen.items():
            if isinstance(state, KbootError):
                if self.clock() - self._answered_s.get(name, 0.0) > _SILENT_S:
                    return f"{name} was ready and does not answer any more: {state.message}"
            elif state.run != decision.runs.get(name):
                return f"{name} was started again before the start"
            elif not _is_ready(state):
                return f"{name} was ready and is {state.stage} now{f': {state.why}' if state.why else ''}"
        return None

    def _follow(self) -> Decision:
        head = self.members[0]
        while True:
            seen = self._look((head,))
            state, mine = seen[head.name], self.state.now()
            decision = state.decision if isinstance(state, NodeState) else None
            if decision is not None and decision.runs.get(mine.name) == mine.run:
                self.heard = decision
                if decision.verdict == "refuse":
                    raise disagreement(decision.why, ())
                if decision.verdict == "gave-up":
                    raise _gave_up(head.name, decision.why)
                if decision.verdict == "start" and mine.round == decision.round:
                    self.state.change(stage="started")
                    return decision
                if decision.verdict == "proposed" and mine.round != decision.round:
                    self.state.change(stage="accepted", round=decision.round)
            elif isinstance(state, NodeState):
                if mine.round:
                    self.state.change(stage="ready", round="")
                if decision is not None and self._may_join(state):
                    self.heard = decision
                    self.emit(
                        Notice("fleet.joined", f"the others have started before, as {head.name} says: it joins them")
                    )
                    self.state.change(stage="started")
                    return decision
            self._pause(seen)

    def _may_join(self, head: NodeState) -> bool:
        """Return whether the group has started without this process, which took the place of one that it had.

        An engine that lost a rank is started again by its units, and waits for the one that is missing.
        """
        mine = self.state.now().statement
        if head.stage != "started" or head.statement is None or mine is None:
            return False
        return not self.refuse or not any(each.stops for each in differences((head.statement, mine)))

    def _look(self, nodes: Sequence[FleetNode]) -> Seen:
        """Ask nodes side by side; whatever gets on anywhere makes the deadline later."""
        self._looked_s = self.clock()
        with ThreadPoolExecutor(max(1, min(_AT_ONCE, len(nodes))), thread_name_prefix="fleet") as pool:
            seen = dict(zip((n.name for n in nodes), pool.map(self._one, nodes), strict=True))
        for name, state in seen.items():
            if isinstance(state, KbootError):
                if state.code in _TELLING:
                    self._refused[name] = state
            else:
                self._answered_s[name], self._last[name] = self.clock(), state
                got_on = (state.have_bytes, state.moved)
                if got_on > self._best.get(name, (-1, -1)):
                    self._until_s = max(self._until_s, self.clock() + self.timeout_s)
                    if self.rank == 0 and name in self._best:
                        self.state.moved()  # the others look at the head only, and see by it that somebody gets on
                    self._best[name] = got_on
        return seen

    def _one(self, node: FleetNode) -> NodeState | KbootError:
        try:
            state = self.ask(node)
        except KbootError as exc:
            return exc
        if state.name != node.name:
            return ActionFailed("fleet-other-node", f"at {host_port(node.host, node.port)} answers {state.name}")
        return state

    def _pause(self, seen: Seen) -> None:
        """Wait a little before the next look.

        Raises:
            NotReady: the time is over, or kboot was stopped.
        """
        now_s = self._looked_s  # a process that stood still itself looks again before it judges others
        if now_s >= self._tell_at_s:
            first = self._tell_at_s == 0.0
            self._tell_at_s = now_s + (min(self.timeout_s, 2.0) if first else _TELL_S)
            if not first:
                self.emit(PhaseStarted("meet", len(self.members), 0))  # a bounded wait is work: no watchdog ends it
                self.emit(Notice("fleet.waiting", f"waiting for {some(self._missing(seen), 6)}"))
        until_s = self._until_s + (_HEAR_S if self._hears_head(seen) else 0.0)
        if now_s >= until_s:
            raise self._not_together(seen)
        if self.stop.wait(min(self.pace_s, max(0.0, until_s - now_s))):
            raise NotReady("interrupted", "kboot was stopped while it waited for the other nodes")

    def _hears_head(self, seen: Seen) -> bool:
        """Return whether the head will tell this node who is missing: all run out of time together, and it knows."""
        state = seen.get(self.members[0].name)
        return self.rank != 0 and isinstance(state, NodeState) and state.stage in ("ready", "failed")

    def _missing(self, seen: Seen) -> list[str]:
        """Return whom this node waits for, each with what it does."""
        if self.rank:
            return [self._words(self.members[0].name, seen)]
        open_ = [n.name for n in self.members[1:] if not _is_ready(seen[n.name])]
        return [self._words(name, seen) for name in open_ or [n.name for n in self.members[1:]]]

    def _words(self, name: str, seen: Seen) -> str:
        state = seen[name]
        if isinstance(state, NodeState):
            done = f", {show_bytes(state.have_bytes)} of {show_bytes(state.total_bytes)}" if state.total_bytes else ""
            why = f": {state.why}" if state.why else ""
            doing = f", {state.phase}" if state.stage == "preparing" and state.phase else ""
            return f"{name} ({state.stage}{doing}{done}{why})"
        last = self._last.get(name)
        was = f"; it was {last.stage} before" if last is not None else ""
        refused = self._refused.get(name, state)  # that it did not know this node says more than a cut connection
        said = "" if refused is state else f"; before: {refused.message}"
        return f"{name} (no answer: {state.message}{said}{was})"

    def _not_together(self, seen: Seen) -> NotReady:
        missing = self._missing(seen)
        who = (
            "the head has not released the start" if self.rank else f"{len(missing)} of {len(self.members)} nodes lack"
        )
        return NotReady(
            "fleet-not-together",
            f"{who}, and nothing got on for {self.timeout_s:g} s: {missing[0]}",
            where=tuple(missing[1:]),
            hint="`kboot fleet status` shows every node; boot those that are missing, then this one again",
        )

    def _linger(self, stage: Stage) -> None:
        """Stay until every other node has seen the decision, or for a moment: they learn it from nobody else."""
        deadline_s = self.clock() + min(_LINGER_S, self.timeout_s)
        while not self.stop.is_set():
            seen = self._look(self.members[1:])
            waiting = [s for s in seen.values() if isinstance(s, NodeState) and s.stage not in (stage, "stopped")]
            if not waiting or self.clock() >= deadline_s:
                return
            self.stop.wait(self.pace_s)


def disagreement(why: Sequence[str], odd: Sequence[str]) -> ActionFailed:
    """Return the error of nodes that differ."""
    return ActionFailed(
        "fleet-disagrees",
        f"the nodes differ, and no engine is started so: {why[0] if why else 'the head does not say in what'}",
        where=tuple(why[1:]),
        hint=f"bring {some(odd)} in line" if odd else "decide which node is right; `kboot fleet status` shows all",
    )


def _gave_up(head: str, why: Sequence[str]) -> NotReady:
    return NotReady(
        "fleet-not-together",
        f"{head} gave up: {why[0] if why else 'it does not say why'}",
        where=tuple(why[1:]),
        hint="`kboot fleet status` shows every node",
    )


def _is_ready(state: NodeState | KbootError) -> bool:
    return isinstance(state, NodeState) and state.stage in ("ready", "accepted", "started")


def _accepts(state: NodeState | KbootError, decision: Decision) -> bool:
    """Return whether a node has accepted, or had started before and serves with whoever takes the head's place."""
    if not isinstance(state, NodeState) or state.run != decision.runs.get(state.name):
        return False
    return state.round == decision.round or state.stage == "started"
