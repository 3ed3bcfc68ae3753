"""How does work that no plan has actions for say how far it is?"""

from __future__ import annotations

import pytest

from kboot.apply.phase import phase_of
from kboot.errors import ActionFailed
from kboot.events import Event, FileProgress, PhaseFinished, PhaseStarted


def test_a_phase_says_that_it_began_and_how_it_ended() -> None:
    """What is told of it sums up to what it did."""
    seen: list[Event] = []
    with phase_of(seen.append, "hash", 300, 2) as moved:
        moved(100, 0)
        moved(200, 2)

    last = seen[-1]
    assert [PhaseStarted("hash", 2, 300), FileProgress("hash", "", 0, 300)] == seen[:2]
    assert isinstance(last, PhaseFinished)
    assert ("hash", "done", 300) == (last.phase, last.status, last.bytes_done)


def test_a_phase_that_an_error_ends_has_failed() -> None:
    """The error goes on to whom it concerns."""
    seen: list[Event] = []
    with pytest.raises(ActionFailed), phase_of(seen.append, "write"):
        raise ActionFailed("disk-full", "no room")

    last = seen[-1]
    assert isinstance(last, PhaseFinished)
    assert "failed" == last.status


def test_a_phase_that_ctrl_c_ends_was_interrupted() -> None:
    """It has not failed: who stopped it knows why."""
    seen: list[Event] = []
    with pytest.raises(KeyboardInterrupt), phase_of(seen.append, "hash"):
        raise KeyboardInterrupt

    last = seen[-1]
    assert isinstance(last, PhaseFinished)
    assert "interrupted" == last.status
