"""Live workers: told apart, kept to their CPUs thread by thread, and compared with their plan."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from fakes.nvml.build_nvml import build, environment
from fakes.workers import running
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
from kboot.apply.pin_watch import PinWatch
from kboot.engines.vllm import WORKER_TITLES
from kboot.events import Event, Notice
from kboot.facts.process import Tree, Unit, pids_of, read_process
from kboot.handoff import WorkerPlan
from kboot.host.clock import sleep_s
from kboot.host.nvml import ask_nvml
from kboot.host.real import RealHost
from kboot.host.recorded import RecordedHost
from kboot.host.tasks import pin_myself, pin_task

CPUS = tuple(sorted(os.sched_getaffinity(0)))[:2]
HOST = RealHost()
TWO_CPUS = pytest.mark.skipif(len(CPUS) < 2, reason="needs two CPUs")


def plan(worker: int, *cpus: int, gpu: int | None = None, threads: int = 1, serve: tuple[int, ...] = ()) -> WorkerPlan:
    return WorkerPlan(worker, gpu, cpus, threads, None, serve)


def of(*plans: WorkerPlan, leader: int = 1, threads: int | None = 1, drops: bool = False) -> Watched:
    return Watched(plans, WORKER_TITLES, Tree(leader), threads, drops)


def masks(pid: int) -> list[set[int]]:
    """Return the mask of every thread, as the kernel holds it."""
    return [os.sched_getaffinity(int(tid)) for tid in os.listdir(f"/proc/{pid}/task")]


def eventually(true: Callable[[], bool]) -> bool:
    """Wait for something that another process does."""
    for _ in range(2000):
        if true():
            return True
        sleep_s(0.01)
    return False


@TWO_CPUS
def test_every_thread_of_a_live_worker_is_kept_to_its_cpus() -> None:
    """Not the main thread alone: all five, and one that starts afterwards inherits the mask."""
    first, second = CPUS
    with running("VLLM::Worker_DP0_EP0=5", "VLLM::Worker_DP1_EP1=5") as engine:
        what = of(plan(0, first), plan(1, second), leader=engine.pid)
        found = find_workers(what, HOST, {})
        done = pin_workers(what, HOST, found)
        assert engine.stdin is not None
        engine.stdin.write("more\n")
        engine.stdin.flush()

        assert {0: Pinned(5), 1: Pinned(5)} == done
        for worker, cpu in ((0, first), (1, second)):
            pid = found[worker].pid
            assert eventually(lambda pid=pid: len(masks(pid)) == 6)
            assert [{cpu}] * 6 == masks(pid)
        assert {0: Pinned(0), 1: Pinned(0)} == pin_workers(what, HOST, found)


@TWO_CPUS
def test_a_worker_with_more_openmp_threads_than_cpus_is_left_alone() -> None:
    """Two threads on one CPU would spin (43-52 times slower): nothing is changed, and the finding says why."""
    with running("VLLM::Worker_DP0=3") as engine:
        what = of(plan(0, CPUS[0], threads=2), leader=engine.pid, threads=2)
        found = find_workers(what, HOST, {})
        done = pin_workers(what, HOST, found)
        (check,) = check_workers(what, HOST, found, pinned=done)

        assert Pinned(0, "with 2 OpenMP threads on 1 CPU they would only spin") == done[0]
        assert [set(os.sched_getaffinity(0))] * 3 == masks(found[0].pid)
        assert (3, 3, CPUS[:1]) == (check.tasks, check.stray_tasks, check.planned_cpus)
        assert f"worker 0 (pid {found[0].pid}): 3 of 3 threads may run on CPUs" in check.findings[0]
        assert check.findings[0].endswith("they would only spin")


@TWO_CPUS
def test_without_a_share_in_the_environment_the_mask_counts() -> None:
    """OMP_NUM_THREADS unset: as many threads as CPUs it may use, so half of them would be too few."""
    with running("VLLM::Worker_DP0=2") as engine:
        what = of(plan(0, CPUS[0]), leader=engine.pid, threads=None)

        assert "they would only spin" in pin_workers(what, HOST, find_workers(what, HOST, {}))[0].refused


class HungDriver(RealHost):
    """This machine with a driver that does not answer."""

    asked = 0

    def nvml(self, timeout_s: float) -> Mapping[str, Any]:
        """Answer as a child that was killed does."""
        self.asked += 1
        return {"nvml_init": "TIMEOUT", "detail": f"no answer in {timeout_s:g} s"}


def test_a_driver_that_hangs_holds_up_the_watch_once_and_is_said_once() -> None:
    """Every question would keep threads unpinned, and the engine's readiness unsaid, for ten seconds."""
    seen: list[Event] = []
    host = HungDriver()
    with running("VLLM::Worker_DP0=1") as engine:
        watch = PinWatch((plan(0, *CPUS, gpu=0), plan(1, *CPUS, gpu=1)), WORKER_TITLES, {}, host, seen.append, 0.01)
        watch.begin(Tree(engine.pid))
        try:
            assert eventually(lambda: bool(seen))
            watch.settle({})
        finally:
            watch.end()

    assert 1 == host.asked
    assert ["the GPU driver hangs: no answer in 10 s; workers are told by their titles alone"] == [
        event.text for event in seen if isinstance(event, Notice) and event.event == "gpu.no_answer"
    ]


@TWO_CPUS
def test_the_watch_pins_what_comes_and_proves_it() -> None:
    """From the first sweep to the answer: pinned, told once with the pid, and checked with the log's own number."""
    seen: list[Event] = []
    plans = (plan(0, CPUS[0], threads=9), plan(1, CPUS[1], threads=9))
    with running("VLLM::Worker_DP0=4", "VLLM::Worker_DP1=4") as engine:
        watch = PinWatch(plans, WORKER_TITLES, {"OMP_NUM_THREADS": "1"}, HOST, seen.append, sweep_s=0.01)
        watch.begin(Tree(engine.pid))
        try:
            assert eventually(lambda: len(seen) == 2)
            checks = watch.settle({"Worker_DP0": 1, "Worker_DP1": 40, "EngineCore_DP0": 3})
        finally:
            watch.end()

        assert [(0, "title", CPUS[:1], 4, 0, 1, 1), (1, "title", CPUS[1:], 4, 0, 1, 40)] == [
            (c.worker, c.found_by, c.found_cpus, c.tasks, c.stray_tasks, c.planned_threads, c.reported_threads)
            for c in checks
        ]
        off = f"worker 1 (pid {checks[1].pid}) says it loads with 40 threads, planned 1"
        assert [(), (off,)] == [c.findings for c in checks]
        told = [event.text for event in seen if isinstance(event, Notice)]
        assert f"worker 0 (pid {checks[0].pid}): 4 threads are kept to CPUs {CPUS[0]}" in told


@TWO_CPUS
def test_a_worker_that_serves_with_one_thread_goes_to_its_fast_cpus() -> None:
    """Load wide, serve narrow: only who said that it has loaded, and only where the engine drops to one thread."""
    plans = (plan(0, *CPUS, serve=CPUS[:1]), plan(1, *CPUS, serve=CPUS[1:]))
    with running("VLLM::Worker_DP0=2", "VLLM::Worker_DP1=2") as engine:
        what = of(*plans, leader=engine.pid, threads=2, drops=True)
        found = find_workers(what, HOST, {})
        after, done = narrow_workers(what, HOST, found, {0: 2})

        assert ([CPUS[:1], CPUS], {0: Pinned(2)}) == ([p.cpus for p in after.plans], done)
        assert [{CPUS[0]}] * 2 == masks(found[0].pid)
        assert [set(os.sched_getaffinity(0))] * 2 == masks(found[1].pid)
        never = of(*plans, leader=engine.pid, threads=2)
        assert (never, {}) == narrow_workers(never, HOST, found, {0: 2, 1: 2})


def test_cpus_that_are_not_there_are_refused_in_words() -> None:
    """The kernel says EINVAL for none of them, and cuts a mask that is partly usable without a word: both are told."""
    with running("x=1") as engine:
        gone = max(os.sched_getaffinity(0)) + 500

        assert f"the kernel refuses CPUs {gone}: Invalid argument" in pin_task(engine.pid, {gone})
        assert f"the kernel granted {CPUS[0]}" in pin_task(engine.pid, {CPUS[0], gone})
    assert "" == pin_task(engine.pid, {CPUS[0]})


@pytest.mark.skipif(os.geteuid() != 0, reason="needs another user")
def test_without_the_right_to_it_the_reason_is_named() -> None:
    """Another user's process, no CAP_SYS_NICE: not done, and what would be needed is said."""
    code = "from kboot.host.tasks import pin_task; import os, sys; os.setuid(65534); "
    code += "print(pin_task(int(sys.argv[1]), {int(sys.argv[2])}))"
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with running("x=1") as engine:
        words = [sys.executable, "-c", code, str(engine.pid), str(CPUS[0])]
        said = subprocess.run(words, env=env, capture_output=True, text=True, timeout=60, check=True).stdout

    assert "not allowed: kboot needs to be the same user, or CAP_SYS_NICE\n" == said


def test_kboot_can_go_out_of_the_way() -> None:
    """Every thread of this process, and what they start."""
    before = os.sched_getaffinity(0)
    event = threading.Event()
    thread = threading.Thread(target=event.wait)
    thread.start()
    try:
        assert "" == pin_myself({CPUS[0]})
        assert [{CPUS[0]}] == list({frozenset(mask): mask for mask in masks(os.getpid())}.values())
    finally:
        for tid in os.listdir("/proc/self/task"):
            os.sched_setaffinity(int(tid), before)
        event.set()
        thread.join()


def machine(root: Path, processes: Mapping[int, tuple[str, int]], cgroup: str = "0::/") -> RecordedHost:
    """Write a /proc with processes: pid → (title, session)."""
    for pid, (title, session) in processes.items():
        task = root / f"proc/{pid}/task/{pid}"
        task.mkdir(parents=True)
        (root / f"proc/{pid}/cmdline").write_text(f"{title}   \0")
        (root / f"proc/{pid}/stat").write_text(f"{pid} (a (b) c) S 1 {session} {session} 0")
        (root / f"proc/{pid}/cgroup").write_text(f"{cgroup}\n")
        (task / "status").write_text("Cpus_allowed_list:\t0-3\nnonvoluntary_ctxt_switches:\t7\n")
        (task / "schedstat").write_text("4000000000 1000000000 9\n")
    return RecordedHost(root)


def nvml(*pids: tuple[int, ...]) -> dict[str, Any]:
    return {"nvml_init": "OK", "gpus": [{"index": i, "procs": [{"pid": p} for p in on]} for i, on in enumerate(pids)]}


def found_pids(
    what: Watched, host: RecordedHost, answers: Mapping[str, Any] | None = None
) -> dict[int, tuple[int, str]]:
    return {worker: (f.pid, f.by) for worker, f in find_workers(what, host, answers or {}).items()}


def test_the_gpu_a_process_works_on_tells_more_than_its_title(tmp_path: Path) -> None:
    """Titles say 0 and 1, NVML the other way round; the engine core that has a context too is no worker."""
    host = machine(
        tmp_path,
        {
            10: ("vllm serve", 10),
            11: ("VLLM::EngineCore_DP0", 10),
            21: ("VLLM::Worker_DP0", 10),
            22: ("VLLM::Worker_DP1", 10),
        },
    )
    what = of(plan(0, 0, gpu=0), plan(1, 1, gpu=1), leader=10)

    assert {0: (22, "nvml"), 1: (21, "nvml")} == found_pids(what, host, nvml((22, 11), (21,)))


@pytest.mark.parametrize(
    "answers", [{}, nvml(), nvml((9021,), (9022,)), {"gpus": {"error": "UNKNOWN"}}, nvml((21, 22), ())]
)
def test_where_nvml_does_not_tell_the_titles_do(tmp_path: Path, answers: dict[str, Any]) -> None:
    """Not asked, no process listed, pids of another namespace, an error, two on one GPU."""
    host = machine(
        tmp_path, {21: ("VLLM::Worker_DP1_EP1", 10), 22: ("VLLM::Worker_DP0_EP0", 10), 30: ("VLLM::Worker_DP0", 99)}
    )
    what = of(plan(0, 0, gpu=0), plan(1, 1, gpu=1), leader=10)

    assert {0: (22, "title"), 1: (21, "title")} == found_pids(what, host, answers)


@pytest.mark.parametrize(
    ("titles", "pattern", "expected"),
    [
        (["VLLM::Worker_DP1_TP0_EP2", "VLLM::Worker_DP0_TP1_EP1", "VLLM::Worker_DP1_TP1_EP3",
          "VLLM::Worker_DP0_TP0_EP0"], WORKER_TITLES[0], {0: 3, 1: 1, 2: 0, 3: 2}),
        (["VLLM::Worker_PP1_TP0", "VLLM::Worker_PP0_TP1", "VLLM::Worker_PP0_TP0", "VLLM::Worker_PP1_TP1"],
         WORKER_TITLES[0], {0: 2, 1: 1, 2: 0, 3: 3}),
        (["sglang::scheduler_DP1_TP3_EP3", "sglang::scheduler_DP0_TP0_EP0", "sglang::scheduler_DP1_TP2_EP2",
          "sglang::scheduler_DP0_TP1_EP1"], r"^sglang::scheduler", {0: 1, 1: 3, 2: 2, 3: 0}),
        (["tokenspeed::scheduler_tp1", "tokenspeed::scheduler_tp0", "tokenspeed::scheduler_tp3",
          "tokenspeed::scheduler_tp2"], r"^tokenspeed::scheduler", {0: 1, 1: 0, 2: 3, 3: 2}),
        (["VLLM::Worker_DP10", "VLLM::Worker_DP8"], WORKER_TITLES[0], {0: 1, 2: 0}),
        (["VLLM::Worker_TP3", "VLLM::Worker", "VLLM::Worker"], WORKER_TITLES[0], {3: 0}),
        (["VLLM::Worker"] * 4, WORKER_TITLES[0], {}),
        (["VLLM::Worker_DP0_TP0", "VLLM::Worker_DP1_TP0"], WORKER_TITLES[0], {}),
    ],
    ids=["dp2tp2", "pp2tp2", "sglang", "tokenspeed", "second node", "first of many", "before ranks", "half of dp2tp2"],
)  # fmt: skip
def test_titles_give_the_place_on_the_node(
    tmp_path: Path, titles: list[str], pattern: str, expected: dict[int, int]
) -> None:
    """Four workers: outer degrees first, numbers of later nodes wrapped, and nobody where it is not clear."""
    host = machine(tmp_path, {100 + n: (title, 1) for n, title in enumerate(titles)})
    what = Watched(tuple(plan(w, w) for w in range(4)), (pattern,), Tree(1), 1)

    assert {worker: (100 + n, "title") for worker, n in expected.items()} == found_pids(what, host)


def test_an_engine_core_is_the_worker_where_nothing_is_parallel(tmp_path: Path) -> None:
    """One GPU: vLLM starts no worker process; as soon as there is one it is that."""
    alone = machine(tmp_path / "alone", {5: ("VLLM::EngineCore", 1)})
    both = machine(tmp_path / "both", {5: ("VLLM::EngineCore", 1), 6: ("VLLM::Worker", 1)})

    assert {0: (5, "title")} == found_pids(of(plan(0, 0)), alone)
    assert {0: (6, "title")} == found_pids(of(plan(0, 0)), both)


def test_the_processes_of_a_service_are_those_of_its_cgroup(tmp_path: Path) -> None:
    """Both versions of cgroups, and groups below the service's own; a name that only begins so is another's."""
    host = machine(tmp_path, {7: ("a", 1)}, "0::/system.slice/kboot-engine.service/vllm")
    machine(tmp_path, {8: ("b", 1)}, "1:name=systemd:/system.slice/kboot-engine.service\n0::/")
    machine(tmp_path, {9: ("c", 1)}, "0::/system.slice/kboot-engine.service.old")

    assert (7, 8) == pids_of(host, Unit("kboot-engine.service"))


@pytest.mark.parametrize(
    ("first", "inside"),
    [
        ("0::/init.scope", "0::/machine.slice/machine-a.scope/payload/system.slice/kboot-engine.service"),
        ("0::/init.scope", "0::/system.slice/docker-1f.scope/system.slice/kboot-engine.service"),
        ("0::/docker/1f/init.scope", "0::/docker/2e/system.slice/kboot-engine.service"),
    ],
)
def test_a_machine_inside_this_one_has_services_of_its_own(tmp_path: Path, first: str, inside: str) -> None:
    """The same name in a container is another engine; in the container itself it is the one."""
    host = machine(tmp_path, {1: ("init", 1)}, first)
    machine(tmp_path, {7: ("a", 1)}, inside)

    assert () == pids_of(host, Unit("kboot-engine.service"))


def test_a_container_that_sees_the_whole_path_knows_its_own_services(tmp_path: Path) -> None:
    """Without a namespace of cgroups the first process tells where this machine begins."""
    host = machine(tmp_path, {1: ("init", 1)}, "0::/docker/1f/init.scope")
    machine(tmp_path, {7: ("a", 1)}, "0::/docker/1f/system.slice/kboot-engine.service")
    machine(tmp_path, {8: ("b", 1)}, "0::/system.slice/kboot-engine.service")

    assert (7,) == pids_of(host, Unit("kboot-engine.service"))


def test_a_worker_without_a_process_is_a_finding(tmp_path: Path) -> None:
    """Nothing stands in for what was not found."""
    (check,) = check_workers(of(plan(3, 0, 1)), machine(tmp_path, {}), {})

    assert (3, None, (0, 1), ()) == (check.worker, check.pid, check.planned_cpus, check.found_cpus)
    assert ("worker 3 was not found: no process of it could be told from the others",) == check.findings


def test_throttling_of_the_workers_cgroup_is_read(tmp_path: Path) -> None:
    """cpu.stat of the group the worker is in, not of kboot's."""
    host = machine(tmp_path, {7: ("VLLM::Worker", 1)}, "0::/engine")
    stat = tmp_path / "sys/fs/cgroup/engine/cpu.stat"
    stat.parent.mkdir(parents=True)
    stat.write_text("nr_periods 100\nnr_throttled 50\nthrottled_usec 90000000\n")
    (check,) = check_workers(of(plan(0, 0, 1, 2, 3)), host, {0: Found(7, "title")})

    assert (90.0, 4.0, 1.0, 7, 0.2) == (check.throttled_s, check.run_s, check.wait_s, check.preempted, check.wait_share)
    assert ("worker 0 (pid 7): the CPU quota of its cgroup has stopped it for 90 s",) == check.findings


def test_what_a_log_says_belongs_to_the_worker_of_that_title(tmp_path: Path) -> None:
    """The engine core's own line is not a worker's; a single worker needs no name."""
    host = machine(tmp_path, {7: ("VLLM::Worker_DP1", 1), 8: ("VLLM::Worker_DP0", 1)})
    found = {0: Found(8, "title"), 1: Found(7, "title")}

    said = {"Worker_DP1": 14, "EngineCore_DP0": 3}
    assert {1: 14} == reported_threads(of(plan(0, 0), plan(1, 1)), host, found, said)
    assert {0: 9} == reported_threads(of(plan(0, 0)), host, {0: Found(8, "title")}, {"": 9})


def test_the_share_is_what_the_environment_gives() -> None:
    """A profile's own OMP_NUM_THREADS is what the workers are compared with; without one it is the plan's."""
    own = watched(
        (plan(0, 0, threads=4),), (), {"OMP_NUM_THREADS": "2,1", "VLLM_OMP_NUM_THREADS_SET_BY_VLLM": "1"}, Tree(1)
    )
    left = watched((plan(0, 0, threads=4),), (), {}, Tree(1))

    assert (2, 2, True) == (own.openmp_threads, own.plans[0].threads, own.drops_to_one)
    assert (None, 4, False) == (left.openmp_threads, left.plans[0].threads, left.drops_to_one)


def test_a_process_that_is_gone_is_none(tmp_path: Path) -> None:
    """It may end between being listed and being read."""
    assert read_process(RecordedHost(tmp_path), 77) is None


@pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed")
def test_workers_are_found_through_the_real_binding(tmp_path: Path) -> None:
    """nvidia-ml-py, a libnvidia-ml.so.1, real processes: GPU 0 is worked on by the process that calls itself DP1."""
    with running("VLLM::Worker_DP0=2", "VLLM::Worker_DP1=2") as engine:
        what = of(plan(0, *CPUS, gpu=0), plan(1, *CPUS, gpu=1), leader=engine.pid)
        by_title = find_workers(what, HOST, {})
        gpus = [f"name=NVIDIA H200;uuid=GPU-{n};bus=00000000:{n}6:00.0;pid={by_title[1 - n].pid}" for n in (0, 1)]
        env = environment(build(tmp_path), tmp_path / "conf", "driver=580.1;library=13.580.1", gpus)
        found = find_workers(what, HOST, ask_nvml(60, env))

    assert {0: Found(by_title[1].pid, "nvml"), 1: Found(by_title[0].pid, "nvml")} == found
