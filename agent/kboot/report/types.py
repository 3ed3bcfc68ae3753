"""What was done: outcomes, and the whole boot as one document. Values only."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from kboot.values import dataclass

if TYPE_CHECKING:
    from kboot.errors import KbootError

OutcomeStatus = Literal["done", "unchanged", "failed", "skipped"]
BootStatus = Literal["done", "degraded", "failed", "interrupted"]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one action.

    title: plan.describe() of it. before/after: the value read before and after, where there is one.
    source: where bytes came from. error: None unless failed.
    """

    phase: str
    title: str
    reason: str
    status: OutcomeStatus
    start_unix_s: float
    seconds: float
    size_bytes: int = 0
    source: str = ""
    before: str = ""
    after: str = ""
    error: KbootError | None = None


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of the timeline on one clock (Unix seconds).

    lane: who it belongs to: "kboot" for kboot's phases, "engine" for the engine's, "machine" for what ran before.
    """

    name: str
    lane: Literal["machine", "kboot", "engine"]
    start_unix_s: float
    end_unix_s: float
    size_bytes: int = 0
    status: str = "done"
    detail: str = ""

    @property
    def seconds(self) -> float:
        """Length, never negative."""
        return max(0.0, self.end_unix_s - self.start_unix_s)


@dataclass(frozen=True, slots=True)
class WorkerCheck:
    """One GPU worker, planned and found, when it was looked at. pid None: no process of it was found.

    found_by: what told its process from the others. found_cpus: those that any of its threads may use. tasks: its
    threads; stray_tasks: those that may run outside planned_cpus. reported_threads: its OpenMP threads as the engine's
    log tells them. run_s, wait_s: of its threads, on a CPU and waiting for one; preempted: how often they lost one.
    throttled_s: how long a CPU quota has stopped its cgroup. findings: what is off plan, a sentence each.
    """

    worker: int
    gpu: int | None
    pid: int | None
    found_by: Literal["nvml", "title", ""]
    planned_cpus: tuple[int, ...]
    found_cpus: tuple[int, ...]
    planned_threads: int
    reported_threads: int | None
    tasks: int
    stray_tasks: int
    run_s: float | None
    wait_s: float | None
    preempted: int
    throttled_s: float | None
    findings: tuple[str, ...]

    @property
    def wait_share(self) -> float | None:
        """Return the part of the time in which its threads could run that they waited for a CPU."""
        if self.run_s is None or self.wait_s is None or self.run_s + self.wait_s <= 0:
            return None
        return self.wait_s / (self.run_s + self.wait_s)


RunKind = Literal["boot", "bytes"]
"""A boot of the node, or a run about the bytes of its checkpoint alone (`kboot fetch`, `kboot warm`)."""


@dataclass(frozen=True, slots=True)
class BootReport:
    """One run, whole. ready_unix_s: when the engine answered; None when it did not or was not asked to.

    workers: planned and found, when the engine answered. gpu_class: of the layout ("B300"); empty where it has none.
    gpus: how many the node has.
    """

    boot_id: str
    profile: str
    commit: str
    status: BootStatus
    started_unix_s: float
    finished_unix_s: float
    kernel_start_unix_s: float | None
    ready_unix_s: float | None
    verify_mode: str
    verify_claim: str
    cache_key: str
    spans: tuple[Span, ...]
    outcomes: tuple[Outcome, ...]
    warnings: tuple[str, ...]
    error: KbootError | None
    workers: tuple[WorkerCheck, ...] = ()
    gpu_class: str = ""
    gpus: int = 0
    what: RunKind = "boot"
