"""One boot at a time: the second waits while the first gets on."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from fakes.checkpoints import paths_in
from kboot.apply.turn import turn
from kboot.errors import ActionFailed
from kboot.events import Event, Notice, PhaseStarted
from kboot.host.files import make_dirs
from kboot.host.locks import lock_file


def test_inside_the_block_nobody_else_has_a_turn(tmp_path: Path) -> None:
    """The lock is held until the block ends, also by an exception."""
    paths = paths_in(tmp_path)
    make_dirs(paths.runtime)
    with pytest.raises(RuntimeError), turn(paths, lambda _: None, threading.Event()):
        with pytest.raises(ActionFailed), lock_file(paths.runtime / "boot.lock", 0):
            pass
        raise RuntimeError

    with lock_file(paths.runtime / "boot.lock", 0):
        pass


def test_events_are_signs_of_life(tmp_path: Path) -> None:
    """B011: whatever happens in a boot shows others that it gets on, and reaches whoever follows it."""
    paths, seen = paths_in(tmp_path), list[Event]()
    make_dirs(paths.runtime)
    waiting = lock_file(paths.runtime / "boot.lock", 0)
    with turn(paths, seen.append, threading.Event()) as emit:
        before = waiting.last_beat()
        emit(PhaseStarted("fetch", 1, 1))

        assert before <= waiting.last_beat()
        assert [PhaseStarted("fetch", 1, 1)] == seen


def test_waiting_ends_with_the_holder(tmp_path: Path) -> None:
    """B011: who is waited for is told once; when it lets go, or dies, the turn is ours."""
    paths, told = paths_in(tmp_path), list[str]()
    make_dirs(paths.runtime)
    held = lock_file(paths.runtime / "boot.lock", 0)
    held.acquire()

    def let_go(event: Event) -> None:
        assert isinstance(event, Notice)
        told.append(event.event)
        threading.Timer(0.6, held.release).start()

    with turn(paths, let_go, threading.Event()):
        pass

    assert ["boot.waiting"] == told
