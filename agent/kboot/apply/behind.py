"""What is done in a thread of its own, behind all others, when it is offered and the engine has answered?"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable

from kboot.host.clock import monotonic_s
from kboot.host.priority import be_idle

LOOK_S = 5.0
_END_S = 5.0


class Behind:
    """Work that is done once for each offer; offers that come while it is done count as one.

    answers: whether the engine does; asked every look_s where the work waits for that. step_back: lets the thread, and
    so its children, work behind others. stop: set by end(), for the work to look at.
    """

    def __init__(
        self,
        name: str,
        work: Callable[[], None],
        answers: Callable[[], bool],
        look_s: float = LOOK_S,
        step_back: Callable[[], None] = be_idle,
    ) -> None:
        self._work, self._answers, self._look_s, self._step_back = work, answers, look_s, step_back
        self.stop, self._offered = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def begin(self) -> None:
        """Wait for an offer."""
        self._thread.start()

    def offer(self) -> None:
        """Let the work be done."""
        self._offered.set()

    def end(self) -> None:
        """Stop waiting; work that does not look at stop is left to its end."""
        self.stop.set()
        self._offered.set()
        self._thread.join(_END_S)

    def is_time(self, longest_s: float = math.inf) -> bool:
        """Wait until the engine answers, for so long at most; False when told to stop, or when another offer came."""
        until_s = monotonic_s() + longest_s
        while not self._answers() and monotonic_s() < until_s:
            if self.stop.wait(self._look_s) or self._offered.is_set():
                return False
        return not self.stop.is_set()

    def _run(self) -> None:
        self._step_back()
        while self._offered.wait() and not self.stop.is_set():
            self._offered.clear()
            self._work()
