"""What goes on while the engine starts, since it does not wait for it: warming the page cache.

Engines import for a minute before they ask for the first weight; warming before that start would only come first.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace

from kboot.apply.run import Ran, Tools, run
from kboot.apply.warm import STOPPED
from kboot.plan.types import Phase, PhaseName
from kboot.report.types import BootReport

BESIDE: frozenset[PhaseName] = frozenset({"warm"})
"""Phases that nothing of the engine's start waits for."""


@dataclass(frozen=True, slots=True)
class Beside:
    """Phases at work in a thread of their own."""

    running: Future[Ran]
    stop: threading.Event

    def end(self, why: str) -> Ran:
        """Return what became of them; what is not done is left, because of `why`. May be called again."""
        self.stop.set()
        ran = self.running.result()
        outcomes = tuple(replace(o, reason=why) if o.reason == STOPPED else o for o in ran.outcomes)
        return replace(ran, outcomes=outcomes)


def begin(phases: Sequence[Phase], tools: Tools) -> Beside:
    """Start the phases; they go on until they are done or `end` is called."""
    stop = threading.Event()
    pool = ThreadPoolExecutor(1, thread_name_prefix="beside")
    running = pool.submit(run, tuple(phases), replace(tools, stop=stop))
    pool.shutdown(wait=False)
    return Beside(running, stop)


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
