"""A node tells how far it is, and reads what others tell without trusting its form."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kboot.apply.fleet_state import Decision, FleetState, NodeState, state_from_json, state_to_bytes
from kboot.events import Event, FileDone, FileProgress, Notice, PhaseFinished, PhaseStarted
from kboot.facts.fleet_types import NodeStatement
from kboot.report.progress import Tracker

STATEMENT = NodeStatement("n1", {"driver": "580"}, 5)
STATE = NodeState(
    "n1",
    "0af3",
    "accepted",
    "c0ffee",
    "fetch",
    3,
    9,
    4,
    "why",
    "r1",
    STATEMENT,
    Decision("r1", "start", {"n0": "1", "n1": "0af3"}, ("a",), (STATEMENT,)),
)


def test_a_state_says_the_same_when_it_is_read() -> None:
    """All of it, with and without a statement and a decision."""
    for state in (STATE, NodeState("n1", "0af3", "preparing")):
        assert state == state_from_json(json.loads(state_to_bytes(state)))


@pytest.mark.parametrize(
    "change",
    [
        {"schema": 2},
        {"kind": "status"},
        {"stage": "asleep"},
        {"name": None},
        {"run": "x" * 3000},
        {"have_bytes": -1},
        {"have_bytes": 1.5},
        {"total_bytes": 10**400},
        {"moved": True},
        {"statement": []},
        {"decision": 1},
        {"decision": {"round": "r", "verdict": "maybe", "runs": {}, "why": [], "statements": []}},
        {"decision": {"round": "r", "verdict": "start", "runs": {"a": 1}, "why": [], "statements": []}},
        {"decision": {"round": "r", "verdict": "start", "runs": {}, "why": "a", "statements": []}},
        {"decision": {"round": "r", "verdict": "start", "runs": {}, "why": [], "statements": "a"}},
    ],
)
def test_any_other_answer_is_refused(change: dict[str, Any]) -> None:
    """A node that is of another version, or broken, is not taken for a ready one."""
    with pytest.raises(ValueError, match=r"."):
        state_from_json({**json.loads(state_to_bytes(STATE)), **change})


@given(st.dictionaries(st.text(max_size=9), st.none() | st.integers() | st.text() | st.lists(st.integers())))
def test_no_answer_whatever_does_more_than_be_refused(document: dict[str, Any]) -> None:
    """Whoever gives it."""
    with pytest.raises(ValueError, match=r"."):
        state_from_json(document)


def test_the_state_follows_the_boot() -> None:
    """Phase, bytes of the fetch (a small file's only word is its end), and that something got on; all is passed on."""
    state, passed = FleetState("n1"), list[Event]()
    emit = state.follow(passed.append)
    events = (
        PhaseStarted("fetch", 2, 30),
        FileProgress("fetch", "a", 4, 10),
        FileProgress("fetch", "a", 10, 10),
        FileDone("fetch", "a", 10, 1.0, "hub"),
        FileProgress("fetch", "b", 5, 20),
        FileDone("fetch", "c", 3, 0.1, "hub"),
        Notice("x", "y"),
        PhaseFinished("fetch", "done", 1.0, 30),
        PhaseStarted("warm", 2, 7),
    )
    for event in events:
        emit(event)

    now = state.now()
    assert ("warm", 13, 30) == (now.phase, now.have_bytes, now.total_bytes)
    assert 8 == now.moved
    assert list(events) == passed


def test_other_nodes_see_the_bytes_that_status_shows_here() -> None:
    """What was on the disk before counts for neither: not of a file that goes on, nor of one that is done."""
    tracker = Tracker(lambda _: None)
    state = FleetState("n1")
    emit = state.follow(tracker.emit)
    seen = []
    for event in (
        PhaseStarted("fetch", 3, 30),
        FileProgress("fetch", "a", 6, 20),
        FileProgress("fetch", "a", 16, 20),
        FileProgress("fetch", "b", 2, 10),
        FileDone("fetch", "a", 20, 1.0, "hub", 6),
        FileDone("fetch", "b", 10, 1.0, "hub", 10),
        FileDone("fetch", "c", 90, 1.0, "hub"),
    ):
        emit(event)
        (phase,) = tracker.view().phases
        seen.append((phase.done_bytes, state.now().have_bytes))

    assert [(0, 0), (0, 0), (10, 10), (10, 10), (14, 14), (14, 14), (30, 30)] == seen


def test_another_run_is_another_process_to_the_others() -> None:
    """What the one before it accepted or decided is gone."""
    state = FleetState("n1")
    state.change(stage="accepted", round="r1", commit="c0ffee", decision=STATE.decision)
    before = state.now()
    state.begin_again()

    assert ("preparing", "", None, "c0ffee") == (
        state.now().stage,
        state.now().round,
        state.now().decision,
        state.now().commit,
    )
    assert before.run != state.now().run


def test_caches_that_became_complete_are_stated() -> None:
    """What was stated before the engine was ready for the first time is true no more."""
    state = FleetState("n1")
    state.caches_complete()
    assert None is state.now().statement
    state.change(statement=NodeStatement("n1", {"driver": "580", "caches": "not complete"}))
    state.caches_complete()

    assert NodeStatement("n1", {"driver": "580", "caches": "complete"}) == state.now().statement
