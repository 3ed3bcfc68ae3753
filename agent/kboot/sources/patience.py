"""How long is a question asked again when the answer is trouble? Bounded in tries, and in time for what is no fault."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

from kboot.errors import SourceError
from kboot.host.clock import boot_monotonic_s, monotonic_s, sleep_s
from kboot.sources.stopping import stopped
from kboot.sources.types import NotYet, RateLimited

LIMITED_S = 600.0
"""Waited for rate limits in all; the Hub's window is 300 s."""
SHORTEST_WAIT_S = 0.5
NOT_YET_WAIT_S = 2.0
_FIRST_MINUTES_S = 600.0
_LATER_S = 10.0
_TRIES = 3
_TRIES_FAILING = 7  # of a server that says itself that it is out of order: 23 s in all, a restart of a front end
_LONGEST_WAIT_S = 8.0

_T = TypeVar("_T")


def not_yet_s(since_boot_s: float) -> float:
    """Return how long to wait for resolver, route and clock: minutes on a machine that has just started, else not."""
    return 180.0 if since_boot_s < _FIRST_MINUTES_S else _LATER_S


def back_off_s(failures: int, luck: float) -> float:
    """Return the wait before the next try after so many failures. luck: in [0, 1), spreads many streams."""
    return min(_LONGEST_WAIT_S, SHORTEST_WAIT_S * 2.0 ** (failures - 1)) * (0.5 + luck / 2)


OnWait = Callable[[str, float], None]
"""Told before each wait: why, and for how many seconds."""


def wait_silently(_why: str, _wait_s: float) -> None:
    """Tell nobody of a wait."""


def always() -> bool:
    """Say of every answer that nothing can be done without it."""
    return True


class Patience:
    """The tries of one question."""

    def __init__(
        self,
        on_wait: OnWait = wait_silently,
        sleep: Callable[[float], None] = sleep_s,
        not_yet_for_s: float | None = None,
        needed: Callable[[], bool] = always,
    ) -> None:
        """Start the clock. not_yet_for_s: None = not_yet_s().

        needed: asked when something fails; False = only what is known to pass is waited for, a rate limit and the
        start of this machine, and what else fails is not tried again.
        """
        self._on_wait = on_wait
        self._sleep = sleep
        self._failures = 0
        allowed_s = not_yet_s(boot_monotonic_s()) if not_yet_for_s is None else not_yet_for_s
        self._is_starting = allowed_s > _LATER_S
        self._not_yet_until_s = monotonic_s() + allowed_s
        self._limited_left_s = LIMITED_S
        self._needed = needed

    def answer(self, ask: Callable[[], _T], stop: threading.Event | None) -> _T:
        """Ask, and again as long as wait_or_raise waits; return the answer.

        Raises:
            SourceError: there is none.
        """
        while True:
            try:
                return ask()
            except SourceError as exc:
                self.wait_or_raise(exc, stop)

    def wait_or_raise(self, exc: SourceError, stop: threading.Event | None = None) -> None:
        """Wait for the next try, or raise when there is to be none.

        stop: ends the wait, as "interrupted": what was waited for is not why it ended.
        """
        if stop is not None and stop.is_set():
            raise stopped() from exc
        wait_s = self._wait_s(exc)
        if wait_s is None:
            raise exc
        self._on_wait(exc.message, wait_s)
        if stop is None:
            self._sleep(wait_s)
        elif stop.wait(wait_s):
            raise stopped() from exc

    def _wait_s(self, exc: SourceError) -> float | None:
        # A resolver that knows no server yet says of some names that there are none.
        if isinstance(exc, NotYet) or (self._is_starting and exc.code == "host-unknown"):
            in_time = monotonic_s() < self._not_yet_until_s
            return NOT_YET_WAIT_S if in_time and (self._is_starting or self._needed()) else None
        if isinstance(exc, RateLimited) and exc.retry_after_s is not None:
            wait_s = exc.retry_after_s + SHORTEST_WAIT_S
            self._limited_left_s -= wait_s
            return wait_s if self._limited_left_s >= 0 else None
        self._failures += 1
        tries = _TRIES_FAILING if exc.code == "source-failing" else _TRIES
        again = exc.retry and self._failures < tries and self._needed()
        return back_off_s(self._failures, 0.99) if again else None
