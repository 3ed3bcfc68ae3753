"""How one action is carried out and what is said of it, the same for every executor."""

from __future__ import annotations

from collections.abc import Callable

from kboot.errors import KbootError
from kboot.host.clock import monotonic_s, run_unix_s
from kboot.plan.types import Action, PhaseName, describe
from kboot.report.types import Outcome, OutcomeStatus
from kboot.values import dataclass


@dataclass(frozen=True, slots=True)
class Effect:
    """What an action changed, as read back. status: done, or unchanged when it was right already."""

    status: OutcomeStatus = "done"
    before: str = ""
    after: str = ""
    size_bytes: int = 0
    source: str = ""


def carry_out(phase: PhaseName, action: Action, work: Callable[[], Effect]) -> Outcome:
    """Do the work of one action; an error of ours becomes a failed outcome, any other is a bug and goes up."""
    started_unix_s, clock_s = run_unix_s(), monotonic_s()
    error: KbootError | None = None
    try:
        effect = work()
    except KbootError as exc:
        effect, error = Effect(status="failed"), exc
    return Outcome(
        phase=phase,
        title=describe(action),
        reason=action.reason,
        status=effect.status,
        start_unix_s=started_unix_s,
        seconds=monotonic_s() - clock_s,
        size_bytes=effect.size_bytes,
        source=effect.source,
        before=effect.before,
        after=effect.after,
        error=error,
    )


def skipped(phase: PhaseName, action: Action, why: str) -> Outcome:
    """Return the outcome of an action that was not tried."""
    return Outcome(phase, describe(action), why, "skipped", run_unix_s(), 0.0)
