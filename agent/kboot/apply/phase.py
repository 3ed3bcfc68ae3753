"""How does work that no plan has actions for say how far it is? By the events of a phase of its own."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

from kboot.errors import ExitStatus, KbootError
from kboot.events import Emit, FileProgress, Moved, PhaseFinished, PhaseStarted
from kboot.host.clock import monotonic_s

_EVERY_S = 0.1


@contextmanager
def phase_of(emit: Emit, name: str, total_bytes: int = 0, files: int = 0) -> Iterator[Moved]:
    """Announce a phase, and its end; yield what is told, from any thread, of the bytes and files done since.

    total_bytes, files: 0 where nobody knows.
    """
    lock, started_s = threading.Lock(), monotonic_s()
    done_bytes, done_files, told_s = 0, 0, started_s

    def moved(size_bytes: int, more_files: int) -> None:
        nonlocal done_bytes, done_files, told_s
        with lock:
            done_bytes += size_bytes
            done_files += more_files
            now_s = monotonic_s()
            if now_s - told_s < _EVERY_S:
                return
            told_s = now_s
        emit(FileProgress(name, "", done_bytes, total_bytes, done_files))

    emit(PhaseStarted(name, files, total_bytes))
    emit(FileProgress(name, "", 0, total_bytes))
    status = "done"
    try:
        yield moved
    except BaseException as exc:
        status = ended_by(exc)
        raise
    finally:
        emit(PhaseFinished(name, status, monotonic_s() - started_s, done_bytes))


def ended_by(exc: BaseException) -> Literal["interrupted", "failed"]:
    """Return how a phase ended that an exception left."""
    told = isinstance(exc, KbootError) and exc.status == ExitStatus.INTERRUPTED
    return "interrupted" if told or isinstance(exc, KeyboardInterrupt) else "failed"
