"""Looks after the workers of an engine while it starts, and proves at the end what each of them has."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kboot.apply.pin import (
    Found,
    Pinned,
    Watched,
    check_workers,
    find_workers,
    narrow_workers,
    pin_workers,
    reported_threads,
    watched,
)
from kboot.cpulist import format_cpu_list
from kboot.events import Emit, Notice
from kboot.facts.driver import ask_driver
from kboot.host.clock import monotonic_s

if TYPE_CHECKING:
    from kboot.facts.process import Scope
    from kboot.handoff import WorkerPlan
    from kboot.host.types import Host
    from kboot.report.types import WorkerCheck

SWEEP_S = 2.0
_NVML_EVERY_S = 15.0
_NVML_TIMEOUT_S = 10.0


class PinWatch:
    """One engine's workers. Use: `begin` when its first process runs, `settle` when it answers, `end` in any case.

    found: how many of them were there at the last look.
    """

    def __init__(
        self,
        plans: Sequence[WorkerPlan],
        titles: Sequence[str],
        env: Mapping[str, str],
        host: Host,
        emit: Emit,
        sweep_s: float = SWEEP_S,
    ) -> None:
        self._plans, self._titles, self._env = plans, titles, env
        self._host, self._emit, self._sweep_s = host, emit, sweep_s
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._what: Watched | None = None
        self._nvml: Mapping[str, Any] = {}
        self._nvml_at_s: float | None = None
        self._hangs = False
        self.found = 0

    def begin(self, scope: Scope) -> None:
        """Look after the workers of this scope from now on, every few seconds, in a thread of its own."""
        self._what = watched(self._plans, self._titles, self._env, scope)
        self._thread = threading.Thread(target=self._run, args=(self._what,), name="pin", daemon=True)
        self._thread.start()

    def settle(self, said: Mapping[str, int]) -> tuple[WorkerCheck, ...]:
        """Stop watching; pin once more, go over to the CPUs to serve on, and return what each worker has.

        said: threads by process, as the engine's log tells them.
        """
        self.end()
        if self._what is None:
            return ()
        what, host = self._what, self._host
        self._ask_nvml(what)
        found = find_workers(what, host, self._nvml)
        pinned = self._told(what, found, pin_workers(what, host, found))
        reported = reported_threads(what, host, found, said)
        what, narrowed = narrow_workers(what, host, found, reported)
        self._told(what, found, narrowed)
        return check_workers(what, host, found, reported, {**pinned, **narrowed})

    def end(self) -> None:
        """Stop watching; the masks stay."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(_NVML_TIMEOUT_S + self._sweep_s)

    def _run(self, what: Watched) -> None:
        while not self._stop.wait(self._sweep_s):
            found = find_workers(what, self._host, self._nvml)
            if len(found) < len(what.plans) and self._nvml_is_due():
                self._ask_nvml(what)
            self._told(what, found, pin_workers(what, self._host, found))
            self.found = len(found)

    def _nvml_is_due(self) -> bool:
        return self._nvml_at_s is None or monotonic_s() - self._nvml_at_s > _NVML_EVERY_S

    def _ask_nvml(self, what: Watched) -> None:
        """Ask which process works on which GPU; one that does not answer leaves the titles, and is asked no more.

        No thread is pinned while it is waited for, and who waits for the engine would wait for it as well.
        """
        if self._hangs or all(plan.gpu is None for plan in what.plans):
            return
        self._nvml = ask_driver(self._host, _NVML_TIMEOUT_S, self._hung)
        self._nvml_at_s = monotonic_s()

    def _hung(self, why: str) -> None:
        self._hangs = True
        self._emit(Notice("gpu.no_answer", f"{why}; workers are told by their titles alone"))

    def _told(self, what: Watched, found: Mapping[int, Found], pinned: Mapping[int, Pinned]) -> Mapping[int, Pinned]:
        for plan in what.plans:
            done = pinned.get(plan.worker)
            if done is not None and done.moved:
                who = f"worker {plan.worker} (pid {found[plan.worker].pid})"
                where = f"CPUs {format_cpu_list(plan.cpus)}"
                self._emit(Notice("worker.pinned", f"{who}: {done.moved} threads are kept to {where}"))
        return pinned
