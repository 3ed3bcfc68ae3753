"""Serves in the foreground what a boot has prepared: start the engine, see it answer, follow it, stop it."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from kboot.apply.beside import Beside, with_beside
from kboot.apply.cache_record import record_ready
from kboot.apply.pin_watch import PinWatch
from kboot.apply.serve import Answers, RunningEngine, start_engine
from kboot.errors import KbootError, NotReady
from kboot.events import Emit, Notice, PhaseFinished, PhaseStarted
from kboot.facts.process import Tree
from kboot.handoff import workers_of
from kboot.host.clock import run_unix_s
from kboot.plan.types import Plan, StartEngine, describe
from kboot.report.engine import serve_span
from kboot.report.saved import keep_report
from kboot.report.types import BootReport, BootStatus, Outcome, Span, WorkerCheck
from kboot.report.usual import usual_phases
from kboot.values import dataclass

if TYPE_CHECKING:
    from kboot.host.paths import Paths
    from kboot.host.types import Host
    from kboot.profile.types import ServeAsk

EXEC_ARGV = (sys.executable, "-m", "kboot", "exec")
"""How this kboot becomes the engine: the same interpreter and environment, the record of this node."""

OnReady = Callable[[BootReport], None]


@dataclass(frozen=True, slots=True)
class Serving:
    """What serving needs besides the plan.

    exit_when_ready: stop the engine again as soon as it answers. beside: what goes on while it starts.
    earlier: boots of this node, newest first.
    """

    plan: Plan
    ask: ServeAsk
    paths: Paths
    exit_when_ready: bool
    on_ready: OnReady
    host: Host
    beside: Beside
    earlier: Sequence[BootReport]


def serve(serving: Serving, prepared: BootReport, emit: Emit, stop: threading.Event) -> BootReport:
    """Start the engine and stay until it is stopped or ends by itself; return the report of the whole boot.

    Nothing of the engine is left running when this returns or raises. The kernel cache is put on record and marked
    complete, and the report saved and given to on_ready, when the engine answers.
    """
    action = next(a for p in serving.plan.phases for a in p.actions if isinstance(a, StartEngine))
    emit(PhaseStarted("serve", 1, 0))
    started_unix_s = run_unix_s()
    watch = _watch(serving, action, emit)
    try:
        running = start_engine(
            action,
            serving.paths,
            emit,
            stop,
            EXEC_ARGV,
            serving.ask.probe,
            on_start=lambda pid: watch.begin(Tree(pid)),
            on_words=serving.beside.engine_speaks,
            usual=usual_phases(serving.earlier, serving.plan.profile),
            stop_timeout_s=serving.ask.stop_timeout_s,
        )
    except KbootError as exc:
        watch.end()
        ending: BootStatus = "interrupted" if stop.is_set() else "failed"
        emit(PhaseFinished("serve", ending, run_unix_s() - started_unix_s, 0))
        prepared = with_beside(prepared, serving.beside.end("the engine did not start"))
        return _failed(prepared, action, started_unix_s, exc, ending)
    try:
        prepared = with_beside(prepared, serving.beside.end("the engine answered before"))
        ready = replace(_ready(prepared, action, running), workers=_settle(watch, running, emit))
        emit(PhaseFinished("serve", "done", running.ready_unix_s - started_unix_s, 0))
        emit(Notice("engine.answered", _words(running.answers)))
        _record(serving, running, emit)
        keep_report(ready, serving.paths, emit)
        serving.on_ready(ready)
        status = None if serving.exit_when_ready else running.wait(stop)
    finally:
        obeyed = running.stop(serving.ask.stop_timeout_s)
    if status is not None:
        return replace(ready, status="failed", finished_unix_s=run_unix_s(), error=_ended(running, status))
    emit(Notice("engine.stopped", "the engine has stopped" if obeyed else "the engine had to be killed"))
    return ready


def _record(serving: Serving, running: RunningEngine, emit: Emit) -> None:
    """Say what the engine made of its caches; one that cannot be put on record serves all the same."""
    try:
        record_ready(serving.plan.cache_dir, serving.paths, running.reader)
    except KbootError as exc:
        emit(Notice("cache.not_recorded", f"{exc.code}: {exc.message}"))


def _watch(serving: Serving, action: StartEngine, emit: Emit) -> PinWatch:
    env = {s.name: s.value for s in action.launch.env}
    return PinWatch(workers_of(serving.plan), action.launch.worker_titles, env, serving.host, emit)


def _settle(watch: PinWatch, running: RunningEngine, emit: Emit) -> tuple[WorkerCheck, ...]:
    """Prove each worker's share and say what is off plan."""
    checks = watch.settle(running.reader.threads())
    for finding in (finding for check in checks for finding in check.findings):
        emit(Notice("worker.off_plan", finding))
    return checks


def _ready(prepared: BootReport, action: StartEngine, running: RunningEngine) -> BootReport:
    took_s = running.ready_unix_s - running.started_unix_s
    span = serve_span(running.started_unix_s, running.ready_unix_s)
    outcome = Outcome("serve", describe(action), action.reason, "done", running.started_unix_s, took_s)
    return replace(
        prepared,
        finished_unix_s=running.ready_unix_s,
        ready_unix_s=running.ready_unix_s,
        spans=(*prepared.spans, span, *running.spans()),
        outcomes=(*prepared.outcomes, replace(outcome, after=_words(running.answers))),
    )


def _failed(
    prepared: BootReport, action: StartEngine, started_unix_s: float, error: KbootError, ending: BootStatus
) -> BootReport:
    now = run_unix_s()
    outcome = Outcome("serve", describe(action), action.reason, "failed", started_unix_s, now - started_unix_s)
    return replace(
        prepared,
        status=ending,
        finished_unix_s=now,
        spans=(*prepared.spans, Span("serve", "kboot", started_unix_s, now, status=ending)),
        outcomes=(*prepared.outcomes, replace(outcome, error=error)),
        error=error,
    )


def _words(answers: Answers) -> str:
    parts = [] if answers.health is None else [f"/health {answers.health}"]
    parts += [f"serves {', '.join(answers.models)}"] if answers.models else []
    parts += [] if answers.completion is None else [f"completion {answers.completion!r}"]
    return ", ".join(parts) or "its log says it is ready"


def _ended(running: RunningEngine, status: int) -> NotReady:
    how = f"was ended by signal {-status}" if status < 0 else f"ended with status {status}"
    failure = running.reader.failure()
    return NotReady(
        "engine-ended",
        f"{running.launch.engine} {how} while it was serving" + (f": {failure.text}" if failure else ""),
        where=(str(running.child.log_path),),
        hint=f"read its last lines: `tail {running.child.log_path}`",
    )
