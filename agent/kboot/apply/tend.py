"""Looks after the workers of the engine's service from its start until it answers, at every start of it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace

from kboot.apply.answering import answering
from kboot.apply.cache_record import record_ready
from kboot.apply.handoff import read_handoff
from kboot.apply.own_cpus import OwnCpus
from kboot.apply.pin_watch import PinWatch
from kboot.apply.service_log import Line, service_log
from kboot.checks.words import count
from kboot.engines import ENGINES
from kboot.engines.logs import LogReader
from kboot.errors import KbootError
from kboot.events import Emit, Notice
from kboot.facts.process import ENGINE_UNIT, Scope, Unit, pids_of
from kboot.handoff import HandoffRecord
from kboot.host.clock import monotonic_s, run_unix_s
from kboot.host.paths import Paths
from kboot.host.types import Host
from kboot.report.engine import ready_at, with_start
from kboot.report.saved import change_report, process_mark, read_boot
from kboot.report.types import BootReport, WorkerCheck
from kboot.values import dataclass

_ASK_S = 5.0
_NONE_S, _STARTING_S, _SERVING_S = 5.0, 1.0, 60.0  # between two looks, while an engine does so
_BECOMING = "; becoming "  # what `kboot exec` says last
_FIRST_LINES = 5
_WITHOUT_HTTP_S = 600.0  # a rank that answers nobody is taken to have loaded by then


@dataclass(frozen=True, slots=True)
class _Start:
    """One start of the engine. process: what tells its first process from any other."""

    process: tuple[int, str]
    since_s: float
    record: HandoffRecord
    watch: PinWatch


class Tender:
    """Runs in a thread of its own beside the daemon, which it never keeps waiting.

    log: returns what the engine has written since its start; nothing where that is not known.
    """

    def __init__(
        self,
        host: Host,
        paths: Paths,
        emit: Emit,
        scope: Scope | None = None,
        log: Callable[[], tuple[Line, ...]] = lambda: service_log(ENGINE_UNIT),
    ) -> None:
        self._host, self._paths, self._emit, self._log = host, paths, emit, log
        self._scope, self._own = scope or Unit(ENGINE_UNIT), OwnCpus(host)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="tend", daemon=True)
        self._start: _Start | None = None
        self._served: tuple[int, str] | None = None

    def begin(self) -> None:
        """Look after every start of the engine from now on."""
        self._thread.start()

    def end(self) -> None:
        """Stop looking; masks stay as they are."""
        self._stop.set()
        self._thread.join(_ASK_S)

    def _run(self) -> None:
        while not self._stop.wait(self._pause_s()):
            self.look()
        if self._start is not None:
            self._start.watch.end()

    def _pause_s(self) -> float:
        if self._served is not None:
            return _SERVING_S
        return _NONE_S if self._start is None else _STARTING_S

    def look(self) -> None:
        """See whether the engine runs; begin with a new start of it, end with one that answers."""
        process = self._first_process()
        if process is not None and process == self._served:
            return
        self._served = None
        self._own.take_back()
        if self._start is not None and self._start.process != process:
            self._start.watch.end()
            self._start = None
        if process is not None and self._start is None:
            self._start = self._begun(process)
        if self._start is not None and self._answers(self._start):
            self._prove(self._start)

    def _first_process(self) -> tuple[int, str] | None:
        pids = pids_of(self._host, self._scope)
        pid, mark = process_mark(self._host, pids[0]) if pids else (0, "")
        return (pid, mark) if pid else None

    def _begun(self, process: tuple[int, str]) -> _Start | None:
        try:
            record = read_handoff(self._paths)
        except KbootError as exc:
            self._emit(Notice("workers.unplanned", f"the engine runs, and its plan cannot be read: {exc.message}"))
            self._served = process  # nothing can be done for this start
            return None
        watch = PinWatch(record.workers, record.worker_titles, dict(record.env), self._host, self._emit)
        watch.begin(self._scope)
        return _Start(process, monotonic_s(), record, watch)

    def _answers(self, start: _Start) -> bool:
        if start.record.health_url is None:
            return monotonic_s() - start.since_s > _WITHOUT_HTTP_S
        # Another process on its port must not make an engine of an earlier start pass for one that is ready.
        return answering(start.record, self._host, _ASK_S, (self._scope,)).answers is not False

    def _prove(self, start: _Start) -> None:
        now_unix_s = run_unix_s()
        reader = self._read(start.record)
        checks = start.watch.settle(reader.threads() if reader else {})
        self._own.leave_to(checks)
        self._start, self._served = None, start.process
        for finding in (finding for check in checks for finding in check.findings):
            self._emit(Notice("worker.off_plan", finding))
        as_planned = sum(not check.findings for check in checks)
        self._emit(Notice("workers.proven", f"{as_planned} of {count(len(checks), 'worker')} are as planned"))
        self._keep(checks, reader, now_unix_s)
        self._complete(start.record.cache_dir, reader)

    def _read(self, record: HandoffRecord) -> LogReader | None:
        """Return what the engine's log says of its start; None where that is not known, or too long ago."""
        lines, known = self._log(), [each for each in ENGINES if each.name == record.engine]
        if not known or not any(_BECOMING in text for _, text in lines[:_FIRST_LINES]):
            return None
        reader = LogReader(known[0], lines[0][0])
        for at_unix_s, line in lines:
            reader.feed(at_unix_s, line)
        return reader

    def _keep(self, checks: tuple[WorkerCheck, ...], reader: LogReader | None, seen_unix_s: float) -> None:
        """Put what was found, and the engine's start, into the report of the boot that prepared it."""
        report = read_boot(self._paths)
        if report is None:
            return

        def served(now: BootReport) -> BootReport:
            start = with_start(now, reader, ready_at(reader, seen_unix_s)) if reader else None
            return replace(start or now, workers=checks)

        try:
            change_report(report, self._paths, served)
        except KbootError as exc:
            self._emit(Notice("workers.not_recorded", f"{exc.code}: {exc.message}"))

    def _complete(self, cache_dir: str, reader: LogReader | None) -> None:
        """Say that an engine was ready with these caches; what it has built since the last time is in them."""
        try:
            record_ready(cache_dir, self._paths, reader)
        except KbootError as exc:
            self._emit(Notice("cache.not_recorded", f"{exc.code}: {exc.message}"))
