"""Workers of a wrapped command line are kept to their parts by a process beside it."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from fakes.workers import running
from kboot.apply.pin_follow import Patience, follow, plans_of
from kboot.engines.types import CpuPlacement, WorkerShare
from kboot.facts.collect import collect
from kboot.handoff import WorkerPlan
from kboot.host.paths import Paths
from kboot.host.real import RealHost
from kboot.plan.placement import place
from kboot.profile.types import CpuAsk
from kboot.report.saved import process_mark

CPUS = tuple(sorted(os.sched_getaffinity(0)))[:2]
QUICK = Patience(look_s=0.1, quiet_s=0.5, most_s=60.0)
DEADLINE_S = 60.0
WORKERS = Path(__file__).parents[1] / "fakes/workers.py"

two_cpus = pytest.mark.skipif(len(CPUS) < 2, reason="needs two CPUs")


def plans() -> tuple[WorkerPlan, ...]:
    return tuple(WorkerPlan(n, None, (cpu,), 1, None) for n, cpu in enumerate(CPUS))


def masks(pid: int) -> list[set[int]]:
    """Return the CPUs of every thread of a process."""
    return [os.sched_getaffinity(int(tid)) for tid in os.listdir(f"/proc/{pid}/task")]


def workers_of(pid: int) -> list[int]:
    """Return the workers that a program has forked, by title."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return sorted(map(int, children), key=lambda child: Path(f"/proc/{child}/cmdline").read_text())


def until(condition: Callable[[], bool]) -> None:
    end_s = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < end_s
        time.sleep(0.02)


@two_cpus
def test_it_ends_when_every_worker_is_where_it_belongs() -> None:
    """All threads of both are moved; then it has nothing to do any more, and says what is off plan: nothing."""
    with running("VLLM::Worker_DP0=3", "VLLM::Worker_DP1=3") as engine:
        off_plan = follow(plans(), "1", process_mark(RealHost(), engine.pid), RealHost(), QUICK)

        assert () == off_plan
        assert [[{cpu}] * 3 for cpu in CPUS] == [masks(pid) for pid in workers_of(engine.pid)]


@two_cpus
def test_it_ends_with_the_command() -> None:
    """Workers that never come are not waited for longer than the process that would have started them."""
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    process = process_mark(RealHost(), child.pid)
    child.communicate()

    assert () == follow(plans(), "1", process, RealHost(), QUICK)


def test_a_worker_that_never_comes_is_named_in_the_end() -> None:
    """The patience of two hours is a bound."""
    seen = follow(plans()[:1], "1", process_mark(RealHost(), "self"), RealHost(), Patience(0.01, 0.05, 0.1))

    assert ("worker 0 was not found: no process of it could be told from the others",) == seen


def test_workers_without_cpus_of_their_own_are_not_followed() -> None:
    """One alone has its CPUs by inheritance; several that share them all have nothing to be kept to."""
    one = WorkerShare(0, None, (0, 1), 2, None, "")
    both = CpuPlacement((one, WorkerShare(1, None, (0, 1), 1, None, "")), (), ())
    apart = CpuPlacement((one, WorkerShare(1, None, (2, 3), 2, None, "")), (), ())

    assert [0, 0, 2] == [len(plans_of(p)) for p in (CpuPlacement((one,), (), ()), both, apart)]


@two_cpus
def test_a_wrapped_command_has_its_workers_pinned(tmp_path: Path) -> None:
    """`kboot exec --workers 2 -- CMD`: CMD starts two workers as it likes, and each ends up on its own CPUs."""
    paths = Paths(tmp_path / "state", tmp_path / "run", tmp_path / "etc")
    placement = place(collect(RealHost(), paths), 2, CpuAsk())
    if not plans_of(placement):
        pytest.skip("needs two cores")
    env = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(sys.path),
        "KBOOT_STATE_DIR": str(paths.state),
        "KBOOT_RUNTIME_DIR": str(paths.runtime),
        "KBOOT_CONFIG_DIR": str(paths.config),
    }
    command = [sys.executable, str(WORKERS), "VLLM::Worker_DP0=3", "VLLM::Worker_DP1=3"]
    child = subprocess.Popen(
        [sys.executable, "-m", "kboot", "exec", "--workers", "2", "--", *command],
        env=env,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert child.stdout is not None
    try:
        assert ["up\n"] * 2 == [child.stdout.readline() for _ in range(2)]
        wanted = [[set(share.cpus)] * 3 for share in placement.workers]
        until(lambda: [masks(pid) for pid in workers_of(child.pid)] == wanted)
    finally:
        _, said = child.communicate(timeout=DEADLINE_S)  # also waits for the one beside it, which has stderr too

    assert 0 == child.returncode
    assert 2 == said.count("3 threads are kept to CPU")
