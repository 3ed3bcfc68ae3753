"""Whose turn is it to prepare this node? One boot at a time; another waits for it while it gets on."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from kboot.errors import ActionFailed, ExitStatus
from kboot.events import Emit, Event, Notice
from kboot.host.clock import monotonic_s
from kboot.host.locks import FileLock, holder, lock_file
from kboot.sources.patience import LIMITED_S

if TYPE_CHECKING:
    from kboot.host.paths import Paths

SILENT_S = LIMITED_S + 60.0
"""A boot without any sign of life for so long is not waited for; it may itself be waiting for a source till then."""
_LOOK_S = 0.25
_BEAT_S = 1.0


@contextmanager
def turn(paths: Paths, emit: Emit, stop: threading.Event) -> Iterator[Emit]:
    """Hold the node's boot lock inside the block; yield what events go to, so that they show others that we get on.

    Raises:
        ActionFailed: code "locked", naming the holder: it did not get on for SILENT_S, or `stop` was set meanwhile.
    """
    lock = lock_file(paths.runtime / "boot.lock", 0)
    _wait(lock, emit, stop)
    try:
        yield _beating(emit, lock)
    finally:
        lock.release()


def _wait(lock: FileLock, emit: Emit, stop: threading.Event) -> None:
    beat, since_s, told = lock.last_beat(), monotonic_s(), False
    while True:
        try:
            lock.acquire()
        except ActionFailed as exc:
            if (now := lock.last_beat()) != beat:
                beat, since_s = now, monotonic_s()
            if exc.code != "locked" or monotonic_s() - since_s >= SILENT_S:
                raise
            if not told:
                told = True
                who = holder(lock.path) or "another process"
                emit(Notice("boot.waiting", f"{who} is preparing this node: waiting for it"))
            if stop.wait(_LOOK_S):
                exc.status = ExitStatus.INTERRUPTED
                raise
        else:
            return


def _beating(emit: Emit, lock: FileLock) -> Emit:
    next_s = 0.0

    def both(event: Event) -> None:
        nonlocal next_s
        if (now_s := monotonic_s()) >= next_s:
            next_s = now_s + _BEAT_S
            lock.beat()
        emit(event)

    return both
