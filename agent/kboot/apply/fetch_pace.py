"""How many streams does a fetch run, and which of them is too slow to keep? Decided from what was measured. No I/O."""

from __future__ import annotations

import threading
from collections import deque

from kboot.values import dataclass

GROWS_BY = 1.15
"""More streams stay when they bring this much more."""
_WINDOW_S = 1.0
_SETTLE_S = 0.5  # connections that were just opened are still getting up to speed
_TRY_AGAIN_S = 10.0
_TRY_AGAIN_MOST_S = 120.0
_BUSY = 0.9  # of this process's CPUs: then nothing is won by more connections
_IDLE = 0.1  # of the machine's CPUs: less is none
_OWN = 0.5  # of the machine's CPUs: then it is this fetch that keeps them busy

_LARGE_BYTES, _SMALL_BYTES = 4 << 20, 1 << 20
_LARGE = 8  # streams


@dataclass(frozen=True, slots=True)
class Cpus:
    """CPU time until now, on clocks that never go back.

    own_s: of this process. idle_s: of all of the machine's CPUs together.
    """

    own_s: float
    idle_s: float


SLOW = 5
"""A stream that is slower than the usual by this factor is moved to another connection."""
SPEED_WINDOW_S = 2.0
CRAWL_BYTES_S = 64 << 10
"""A node that gives less for CRAWL_S does not give: what it has would never be asked of the origin else."""
CRAWL_S = 10.0
_KNOWN = 8  # windows that must have been measured before anything is called usual
_REMEMBERED = 64


class Growth:
    """Doubles the streams while that pays, and goes back when it does not; asks again later, ever more rarely.

    first, most: streams at the beginning and at the end at most. cpus: how many this process may use, of machine_cpus.
    """

    def __init__(self, first: int, most: int, cpus: int, machine_cpus: int) -> None:
        self.streams = first
        self._most = most
        self._cpus = cpus
        self._machine_cpus = machine_cpus
        self._before = 0  # streams before the try that is on; 0 when none is
        self._base_rate = 0.0
        self._start: tuple[float, int, Cpus] | None = None  # of the present window: clock, bytes, CPU seconds
        self._next_try_s = 0.0
        self._pause_s = _TRY_AGAIN_S

    def look(self, now_s: float, moved_bytes: int, cpus: Cpus) -> int:
        """Take in how much was moved, and CPU time used, until now; return how many streams there are to be.

        now_s: on a clock that never goes back. moved_bytes: in all.
        """
        if self._start is None:
            self._start = (now_s + _SETTLE_S, moved_bytes, cpus)
        began_s, began_bytes, began = self._start
        if now_s < began_s:  # the window begins when the streams have settled
            self._start = (began_s, moved_bytes, cpus)
        elif now_s - began_s >= _WINDOW_S:
            seconds = now_s - began_s
            busy = self._is_busy((cpus.own_s - began.own_s) / seconds, (cpus.idle_s - began.idle_s) / seconds)
            self._judge(now_s, (moved_bytes - began_bytes) / seconds, busy)
            self._start = (now_s + (_SETTLE_S if self._before else 0.0), moved_bytes, cpus)
        return self.streams

    def _is_busy(self, own_cpus: float, idle_cpus: float) -> bool:
        """Return whether it is this fetch that leaves no CPU idle, so that more of it would only get in its own way.

        Where other work keeps the CPUs busy and the line is what limits each connection, more of them still pay.
        """
        if own_cpus >= _BUSY * max(1, self._cpus):
            return True
        return idle_cpus < _IDLE * self._machine_cpus and own_cpus >= _OWN * self._machine_cpus

    def _judge(self, now_s: float, rate: float, busy: bool) -> None:
        if self._before:
            if rate < self._base_rate * GROWS_BY:
                self.streams = self._before
                self._next_try_s = now_s + self._pause_s
                self._pause_s = min(_TRY_AGAIN_MOST_S, 2 * self._pause_s)
            self._before = 0
            if self._next_try_s > now_s:
                return
        if rate > 0 and self.streams < self._most and not busy and now_s >= self._next_try_s:
            self._before, self._base_rate = self.streams, rate
            self.streams = min(self._most, 2 * self.streams)


def buffer_bytes(number: int) -> int:
    """Return how much a stream receives at once. number: of the stream, from 0.

    Each buffer costs a few hand-overs of the interpreter between threads: on 2 cores 3.2 GB took 4.4 CPU seconds in
    buffers of 1 MiB and 3.7 of 4 MiB. Where there are many streams, memory is worth more: 56 MiB for 32 of them.
    """
    return _LARGE_BYTES if number < _LARGE else _SMALL_BYTES


class Speeds:
    """What single streams bring, over all of a fetch. For any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._rates: deque[float] = deque(maxlen=_REMEMBERED)

    def is_slow(self, rate_bytes_s: float) -> bool:
        """Take in what one stream brought in a window; return whether that is far below the usual."""
        from statistics import median

        with self._lock:
            usual = median(self._rates) if len(self._rates) >= _KNOWN else 0.0
            self._rates.append(rate_bytes_s)
        return rate_bytes_s * SLOW < usual


class Watch:
    """One try of one stream: is it far below the usual for two windows in a row?"""

    def __init__(self, speeds: Speeds, now_s: float) -> None:
        self._speeds = speeds
        self._since_s = now_s
        self._bytes = 0
        self._slow = 0

    def too_slow(self, size_bytes: int, now_s: float) -> bool:
        """Take in the next bytes; return whether the stream should be left for another."""
        self._bytes += size_bytes
        if now_s - self._since_s < SPEED_WINDOW_S:
            return False
        slow = self._speeds.is_slow(self._bytes / (now_s - self._since_s))
        self._slow = self._slow + 1 if slow else 0
        self._since_s, self._bytes = now_s, 0
        return self._slow >= 2


class Crawl:
    """One try of one stream from another node: does it crawl, however slow the others are?

    Only the time of receiving counts: a rate limit of this node's own says nothing about the other.
    """

    def __init__(self) -> None:
        self._bytes, self._seconds = 0, 0.0

    def is_on(self, size_bytes: int, seconds: float) -> bool:
        """Take in what was received in so many seconds; return whether the stream should be given up."""
        self._bytes, self._seconds = self._bytes + size_bytes, self._seconds + seconds
        if self._seconds < CRAWL_S:
            return False
        crawls = self._bytes < CRAWL_BYTES_S * self._seconds
        self._bytes, self._seconds = 0, 0.0
        return crawls
