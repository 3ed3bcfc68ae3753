"""Keeps what doctor finds at each boot, so that `kboot doctor --since` has something to compare with.

A child process does it: what doctor loads does not stay with the daemon, and a driver that hangs holds nobody else up.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kboot.apply.behind import LOOK_S, Behind
from kboot.events import Emit, Notice
from kboot.host.priority import be_idle
from kboot.host.processes import run

WAIT_S = 3600.0
"""Doctor starts when the engine answers, so that it asks no GPU of one that starts; a node without one has it then."""

TIMEOUT_S = 300.0
"""Many times what the quick questions take: the child works only while nobody else wants the CPU."""

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
        look_s: float = LOOK_S,
        step_back: Callable[[], None] = be_idle,
    ) -> None:
        self._argv, self._emit = tuple(argv), emit
        self._behind = Behind("examine", self._examine, answers, look_s, step_back)

    def begin(self) -> None:
        """Wait for an offer."""
        self._behind.begin()

    def offer(self) -> None:
        """Let doctor look at the node, which a boot has just prepared."""
        self._behind.offer()

    def end(self) -> None:
        """Stop waiting; a child that works is left to its end, which is near."""
        self._behind.end()

    def _examine(self) -> None:
        if not self._behind.is_time(WAIT_S):
            return
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
