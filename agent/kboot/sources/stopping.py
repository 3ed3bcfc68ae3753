"""How does a process that was told to stop stop waiting for its sources?"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

from kboot.errors import SourceError
from kboot.host.clock import monotonic_s
from kboot.sources.types import Source

LOOK_S = 0.2

_T = TypeVar("_T")


def stopped() -> SourceError:
    """Return the error of a question whose answer nobody waits for any more."""
    return SourceError("interrupted", "kboot was told to stop while it waited for the source")


@contextmanager
def interrupted_by(stop: threading.Event | None, sources: Sequence[Source]) -> Iterator[None]:
    """Interrupt the sources when `stop` is set while the block runs; None: nothing stops it."""
    if stop is None or not sources:
        yield
        return
    over = threading.Event()

    def look() -> None:
        while not over.is_set():
            if stop.wait(LOOK_S):
                for source in sources:
                    source.interrupt()
                return

    threading.Thread(target=look, name="stopping", daemon=True).start()
    try:
        yield
    finally:
        over.set()


def answer_or_leave(ask: Callable[[], _T], stop: threading.Event, seconds: float) -> _T:
    """Return what `ask` returns, from a thread of its own: a look-up in the system's resolver cannot be interrupted.

    Raises:
        SourceError: "interrupted" soon after `stop` is set. TimeoutError: the time is over. The thread is left to end.
    """
    done, answers, errors = threading.Event(), list[_T](), list[Exception]()

    def work() -> None:
        try:
            answers.append(ask())
        except Exception as exc:  # noqa: BLE001 - raised again in the thread that waits
            errors.append(exc)
        finally:
            done.set()

    threading.Thread(target=work, name="asking", daemon=True).start()
    until_s = monotonic_s() + seconds
    while not done.wait(LOOK_S):
        if stop.is_set():
            raise stopped()
        if monotonic_s() >= until_s:
            raise TimeoutError(f"no answer in {seconds:g} s")
    if errors:
        raise errors[0]
    return answers[0]
