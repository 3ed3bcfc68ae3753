"""What goes on while the engine starts, since it does not wait for it: warming the page cache.

Engines import for a minute before they ask for the first weight; warming before that start would only come first. Where
there is time for it, the weights wait until the first import is over: reading them takes the disk away from it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import replace

from kboot.apply.outcome import skipped
from kboot.apply.run import Ran, Tools, bytes_of, run
from kboot.apply.warm import STOPPED
from kboot.events import Notice
from kboot.host.clock import monotonic_s
from kboot.plan.types import Phase, PhaseName, WarmFile
from kboot.report.hold import weights_hold_s
from kboot.report.types import BootReport
from kboot.values import dataclass

BESIDE: frozenset[PhaseName] = frozenset({"warm"})
"""Phases that nothing of the engine's start waits for."""

_LOOK_S = 1.0


@dataclass(frozen=True, slots=True)
class Beside:
    """Phases at work in a thread of their own."""

    running: Future[Ran]
    stop: threading.Event
    spoken: threading.Event

    def engine_speaks(self) -> None:
        """Let go on what waits for the engine's first import: it has said something of its own."""
        self.spoken.set()

    def end(self, why: str) -> Ran:
        """Return what became of them; what is not done is left, because of `why`. May be called again."""
        self.stop.set()
        self.spoken.set()
        ran = self.running.result()
        outcomes = tuple(replace(o, reason=why) if o.reason == STOPPED else o for o in ran.outcomes)
        return replace(ran, outcomes=outcomes)


def begin(phases: Sequence[Phase], tools: Tools, earlier: Sequence[BootReport] = ()) -> Beside:
    """Start the phases; they go on until they are done or `end` is called.

    earlier: boots of this node, newest first; they tell whether there is time for the weights to wait.
    """
    stop, spoken = threading.Event(), threading.Event()
    tools = replace(tools, stop=stop)
    pool = ThreadPoolExecutor(1, thread_name_prefix="beside")
    running = pool.submit(_work, tuple(phases), tools, earlier, spoken)
    pool.shutdown(wait=False)
    return Beside(running, stop, spoken)


def _work(phases: Sequence[Phase], tools: Tools, earlier: Sequence[BootReport], spoken: threading.Event) -> Ran:
    began_s = monotonic_s()
    weights = _only(phases, weights=True)
    size_bytes = min(sum(bytes_of(p) for p in weights), tools.warm_budget_bytes)
    hold_s = weights_hold_s(earlier, tools.profile.name, size_bytes) if size_bytes else 0.0
    if not hold_s:
        return run(phases, tools)
    tools.emit(Notice("warm.waits", f"the weights wait until the engine has imported, {hold_s:.0f} s at most"))
    first = run(_only(phases, weights=False), tools)
    spoken.wait(max(0.0, began_s + hold_s - monotonic_s()))
    if tools.stop.is_set():
        left = (skipped(phase.name, action, STOPPED) for phase in weights for action in phase.actions)
        return replace(first, outcomes=(*first.outcomes, *left))
    then = run(weights, tools)
    status = then.status if first.status == "done" else first.status
    return Ran((*first.spans, *then.spans), (*first.outcomes, *then.outcomes), status)


def _only(phases: Sequence[Phase], *, weights: bool) -> tuple[Phase, ...]:
    """Return the phases with the reading of weights alone, or without it."""
    return tuple(replace(p, actions=tuple(a for a in p.actions if isinstance(a, WarmFile) == weights)) for p in phases)


def follow(beside: Beside, answers: Callable[[], bool], stop: threading.Event) -> Ran:
    """Return what became of them; what is not done is left when the engine answers, or `stop` is set.

    For an engine that somebody else starts. answers: whether it does; asked again and again.
    """
    while not beside.running.done():
        if stop.is_set():
            return beside.end(STOPPED)
        if answers():
            return beside.end("the engine answered before")
        wait((beside.running,), _LOOK_S)
    return beside.end("")


def with_beside(report: BootReport, ran: Ran) -> BootReport:
    """Return the report with what went on beside the engine's start; a failure there only made it slower."""
    failed = [o.error for o in ran.outcomes if o.error is not None]
    return replace(
        report,
        spans=tuple(sorted((*report.spans, *ran.spans), key=lambda s: s.start_unix_s)),
        outcomes=(*report.outcomes, *ran.outcomes),
        status="degraded" if failed and report.status == "done" else report.status,
        error=report.error or (failed[0] if failed else None),
    )
