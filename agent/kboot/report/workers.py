"""Does each live worker have the share that was planned for it, and how does that read? Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol

from kboot.checks.words import count
from kboot.cpulist import format_cpu_list
from kboot.quantities import show_seconds
from kboot.report.render_text import Paint, no_paint, table, wrap
from kboot.report.types import WorkerCheck
from kboot.values import dataclass

if TYPE_CHECKING:
    from kboot.facts.process import Process

PRESSED_SHARE = 0.2
"""Threads that wait for a CPU for a fifth of the time are too many for their CPUs."""

_PRESSED_S = 2.0  # a worker that has hardly run says nothing
_THROTTLED_S = 1.0


class Planned(Protocol):
    """What a worker was planned to get."""

    @property
    def worker(self) -> int:
        """Return its rank on this node."""
        ...

    @property
    def gpu(self) -> int | None:
        """Return its GPU's index."""
        ...

    @property
    def cpus(self) -> tuple[int, ...]:
        """Return its own CPUs."""
        ...

    @property
    def threads(self) -> int:
        """Return its OpenMP threads."""
        ...


@dataclass(frozen=True, slots=True)
class Seen:
    """What was seen of a live worker. throttled_s: of its cgroup. refused: why it could not be pinned; empty if not."""

    process: Process
    found_by: Literal["nvml", "title"]
    reported_threads: int | None = None
    throttled_s: float | None = None
    refused: str = ""


def check_worker(planned: Planned, seen: Seen | None) -> WorkerCheck:
    """Compare one worker with its plan."""
    if seen is None:
        return _not_found(planned)
    process, wanted = seen.process, frozenset(planned.cpus)
    return WorkerCheck(
        worker=planned.worker,
        gpu=planned.gpu,
        pid=process.pid,
        found_by=seen.found_by,
        planned_cpus=planned.cpus,
        found_cpus=tuple(sorted(process.cpus)),
        planned_threads=planned.threads,
        reported_threads=seen.reported_threads,
        tasks=len(process.tasks),
        stray_tasks=sum(not task.cpus <= wanted for task in process.tasks),
        run_s=process.run_s,
        wait_s=process.wait_s,
        preempted=process.preempted,
        throttled_s=seen.throttled_s,
        findings=tuple(_findings(planned, seen)),
    )


def _not_found(planned: Planned) -> WorkerCheck:
    return WorkerCheck(
        worker=planned.worker,
        gpu=planned.gpu,
        pid=None,
        found_by="",
        planned_cpus=planned.cpus,
        found_cpus=(),
        planned_threads=planned.threads,
        reported_threads=None,
        tasks=0,
        stray_tasks=0,
        run_s=None,
        wait_s=None,
        preempted=0,
        throttled_s=None,
        findings=(f"worker {planned.worker} was not found: no process of it could be told from the others",),
    )


def _findings(planned: Planned, seen: Seen) -> Iterable[str]:
    process, wanted = seen.process, frozenset(planned.cpus)
    who = f"worker {planned.worker} (pid {process.pid})"
    stray = sum(not task.cpus <= wanted for task in process.tasks)
    if stray:
        where = f"CPUs {format_cpu_list(process.cpus)}, planned {format_cpu_list(wanted)}"
        why = f": {seen.refused}" if seen.refused else ""
        yield f"{who}: {stray} of {count(len(process.tasks), 'thread')} may run on {where}{why}"
    reported = seen.reported_threads
    if reported is not None and reported != planned.threads:
        yield f"{who} says it loads with {count(reported, 'thread')}, planned {planned.threads}"
    run_s, wait_s = process.run_s or 0.0, process.wait_s or 0.0
    if run_s > _PRESSED_S and wait_s > PRESSED_SHARE * (run_s + wait_s):
        share = f"{100 * wait_s / (run_s + wait_s):.0f} %"
        yield f"{who} waited for a CPU {share} of the time it could run: something else runs on its CPUs"
    if seen.throttled_s is not None and seen.throttled_s > _THROTTLED_S:
        yield f"{who}: the CPU quota of its cgroup has stopped it for {show_seconds(seen.throttled_s)}"


def workers_text(workers: Sequence[Mapping[str, Any]], *, paint: Paint = no_paint) -> list[str]:
    """Return the workers of a document (`render_json.workers_json`) as lines: a row each, then what is off plan.

    That one was not found stands in its row.
    """
    if not workers:
        return []
    lines = table([_row(w) for w in workers])
    for finding in (finding for w in workers if w["pid"] is not None for finding in w["findings"]):
        lines += wrap(str(finding), f"  {paint('off plan', 'warn')} ")
    return lines


def _row(w: Mapping[str, Any]) -> tuple[str, str, str]:
    name = f"worker {w['worker']}" if w["gpu"] is None else f"worker {w['worker']}, GPU {w['gpu']}"
    if w["pid"] is None:
        why = "no process of it could be told from the others"
        return name, "not found", f"{why}; planned CPUs {format_cpu_list(w['planned_cpus'])}"
    found = format_cpu_list(w["found_cpus"])
    planned = "as planned" if not w["stray_tasks"] else f"planned {format_cpu_list(w['planned_cpus'])}"
    reported = w["reported_threads"]
    threads = f"loaded with {count(reported, 'thread')}" if reported is not None else f"share {w['planned_threads']}"
    waited = w["wait_share"]
    parts = [f"CPUs {found}, {planned}", f"{threads}, {w['tasks']} in all"]
    parts += [f"waited {100 * waited:.0f} % for a CPU"] if waited is not None else []
    return name, f"pid {w['pid']}", "; ".join(parts)
