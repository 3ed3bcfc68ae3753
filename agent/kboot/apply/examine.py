"""Keeps what doctor finds at each boot, so that `kboot doctor --since` has something to compare with.

A child process does it: what doctor loads does not stay with the daemon, and a driver that hangs holds nobody else up.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from kboot.events import Emit, Notice
from kboot.host.clock import monotonic_s
from kboot.host.priority import be_idle
from kboot.host.processes import run

WAIT_S = 3600.0
"""Doctor starts when the engine answers, so that it asks no GPU of one that starts; a node without one has it then."""

TIMEOUT_S = 300.0
"""Many times what the quick questions take: the child works only while nobody else wants the CPU."""

_LOOK_S = 5.0
_END_S = 5.0
_GOOD = frozenset({0, 3, 4})  # doctor's own: nothing, warnings, a failure


class Examiner:
    """Works in a thread of its own, at idle priority. argv: doctor's command line. answers: whether the engine does.

    step_back: lets the thread, and so the child, work behind others.
    """

    def __init__(
        self,
        argv: Sequence[str],
        emit: Emit,
        answers: Callable[[], bool],
        look_s: float = _LOOK_S,
        step_back: Callable[[], None] = be_idle,
    ) -> None:
        self._argv, self._emit, self._answers = tuple(argv), emit, answers
        self._look_s, self._step_back = look_s, step_back
        self._stop, self._offered = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="examine", daemon=True)

    def begin(self) -> None:
        """Wait for an offer."""
        self._thread.start()

    def offer(self) -> None:
        """Let doctor look at the node, which a boot has just prepared."""
        self._offered.set()

    def end(self) -> None:
        """Stop waiting; a child that works is left to its end, which is near."""
        self._stop.set()
        self._offered.set()
        self._thread.join(_END_S)

    def _run(self) -> None:
        self._step_back()
        while self._offered.wait() and not self._stop.is_set():
            self._offered.clear()
            if self._is_time():
                self._examine()

    def _is_time(self) -> bool:
        """Return True when doctor may begin, and False when told to stop, or when another boot has come between."""
        until_s = monotonic_s() + WAIT_S
        while not self._answers() and monotonic_s() < until_s:
            if self._stop.wait(self._look_s) or self._offered.is_set():
                return False
        return not self._stop.is_set()

    def _examine(self) -> None:
        try:
            ended = run(self._argv, TIMEOUT_S)
        except OSError as exc:
            self._emit(Notice("doctor.not_run", f"what doctor finds is not kept with this boot: {exc.strerror}"))
            return
        if ended.timed_out:
            self._emit(Notice("doctor.not_run", f"doctor did not end in {TIMEOUT_S:.0f} s; nothing is kept of it"))
        elif ended.status not in _GOOD:
            self._emit(Notice("doctor.not_run", f"doctor ended with status {ended.status}; nothing is kept of it"))
        else:
            self._emit(Notice("doctor.kept", "what doctor finds is kept with this boot: `kboot doctor --since`"))
