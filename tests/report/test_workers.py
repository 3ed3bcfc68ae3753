"""Does each live worker have the share that was planned for it, and how does that read?"""

from __future__ import annotations

from dataclasses import replace

from kboot.engines.types import WorkerShare
from kboot.facts.process import Process, Task
from kboot.report.render_json import workers_json
from kboot.report.render_text import laid_out_for
from kboot.report.types import WorkerCheck
from kboot.report.workers import Seen, check_worker, workers_text

PLANNED = WorkerShare(3, 5, (8, 9, 10, 11), 4, 0, "")


def process(*masks: set[int], run_s: float | None = 10.0, wait_s: float | None = 1.0) -> Process:
    """A process with one thread for each mask; the times are the process's."""
    each = len(masks)
    times = (None if run_s is None else run_s / each, None if wait_s is None else wait_s / each)
    return Process(77, "VLLM::Worker", tuple(Task(n, frozenset(mask), *times, 2) for n, mask in enumerate(masks)))


def check(found: Process, **seen: object) -> WorkerCheck:
    return check_worker(PLANNED, Seen(found, "nvml", **seen))  # type: ignore[arg-type]


def test_a_worker_on_plan_has_no_findings() -> None:
    """Threads on all its CPUs, or on some of them, are where they were planned to be."""
    found = check(process({8, 9, 10, 11}, {9}), reported_threads=4, throttled_s=0.0)

    assert ((), 2, 0, (8, 9, 10, 11), 4) == (
        found.findings,
        found.tasks,
        found.stray_tasks,
        found.found_cpus,
        found.preempted,
    )


def test_every_deviation_is_told_with_the_pid() -> None:
    """A thread outside, another number of threads, waiting for CPUs, a quota: one sentence each."""
    found = check(
        process({8, 9}, {0, 8}, run_s=30.0, wait_s=10.0), reported_threads=40, throttled_s=12.5, refused="not allowed"
    )

    assert (
        "worker 3 (pid 77): 1 of 2 threads may run on CPUs 0,8-9, planned 8-11: not allowed",
        "worker 3 (pid 77) says it loads with 40 threads, planned 4",
        "worker 3 (pid 77) waited for a CPU 25 % of the time it could run: something else runs on its CPUs",
        "worker 3 (pid 77): the CPU quota of its cgroup has stopped it for 12.5 s",
    ) == found.findings


def test_what_a_kernel_does_not_count_is_unknown_and_no_finding() -> None:
    """Without schedstat there is no pressure to tell; a worker that hardly ran says nothing either."""
    unknown = check(process({8}, run_s=None, wait_s=None))
    young = check(process({8}, run_s=0.5, wait_s=0.5))

    assert ((), None, None) == (unknown.findings, unknown.run_s, unknown.wait_share)
    assert ((), 0.5) == (young.findings, young.wait_share)


def test_workers_are_rows_and_findings_follow() -> None:
    """Planned and found side by side; a worker that was not found says so once, and what was planned."""
    good = check(process({8, 9, 10, 11}), reported_threads=4)
    off = replace(check(process({0, 1})), worker=4, gpu=None)
    lost = check_worker(PLANNED, None)
    with laid_out_for(120):
        lines = workers_text(workers_json((good, off, lost)))

    assert [
        "  worker 3, GPU 5  pid 77     CPUs 8-11, as planned; loaded with 4 threads, 1 in all; waited 9 % for a CPU",
        "  worker 4         pid 77     CPUs 0-1, planned 8-11; share 4, 1 in all; waited 9 % for a CPU",
        "  worker 3, GPU 5  not found  no process of it could be told from the others; planned CPUs 8-11",
        "  off plan worker 3 (pid 77): 1 of 1 thread may run on CPUs 0-1, planned 8-11",
    ] == lines
    assert [] == workers_text([])
