"""How fast may bytes be moved or read, and on whose account? A rate over all threads, and the manners of a scrub."""

from __future__ import annotations

import threading

from kboot.host.clock import monotonic_s
from kboot.values import dataclass


@dataclass(frozen=True, slots=True)
class Pace:
    """How a verification treats the machine.

    rate_mib_s: over all files; 0 = no limit. background: at idle priority, one file at a time, the one whose proof is
    the oldest first, from the disk itself, with the page cache left as it was.
    """

    rate_mib_s: int = 0
    background: bool = False


FULL_PACE = Pace()


class Throttle:
    """A rate over all streams. rate_bytes_s: 0 = none."""

    def __init__(self, rate_bytes_s: int, stop: threading.Event) -> None:
        self._rate = rate_bytes_s
        self._stop = stop
        self._lock = threading.Lock()
        self._free_at_s = 0.0

    def pass_by(self, size_bytes: int) -> None:
        """Wait until this many bytes fit into the rate."""
        if not self._rate:
            return
        with self._lock:
            now = monotonic_s()
            self._free_at_s = max(self._free_at_s, now) + size_bytes / self._rate
            wait_s = self._free_at_s - now
        self._stop.wait(wait_s)
