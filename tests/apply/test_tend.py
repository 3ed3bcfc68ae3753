"""The engine's service, looked after by the daemon at every start of it."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from fakes.health import health
from fakes.records import RECORD
from fakes.workers import running
from kboot.apply.handoff import read_handoff, write_handoff
from kboot.apply.tend import Tender
from kboot.engines.vllm import WORKER_TITLES
from kboot.events import Event, Notice
from kboot.facts.process import Tree
from kboot.handoff import WorkerPlan
from kboot.host.paths import Paths
from kboot.host.real import RealHost
from kboot.host.tasks import pin_myself
from kboot.plan.types import WriteHandoff
from kboot.report.saved import load_reports, read_boot, save_report
from kboot.report.types import BootReport

CPUS = tuple(sorted(os.sched_getaffinity(0)))[:2]
REPORT = BootReport("boot", "p", "c" * 40, "done", 1.0, 2.0, None, None, "full", "", "key", (), (), (), None)

pytestmark = pytest.mark.skipif(len(CPUS) < 2, reason="needs two CPUs")


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    return Paths(tmp_path / "state", tmp_path / "run", tmp_path / "etc")


@pytest.fixture(autouse=True)
def own_cpus() -> Iterator[None]:
    """Take this process's CPUs back: while an engine serves, a tender keeps off those of its workers."""
    before = os.sched_getaffinity(0)
    yield
    assert "" == pin_myself(before)


def prepare(paths: Paths, url: str) -> None:
    """Leave the record and the report of a boot that planned two workers, a CPU each."""
    record = replace(
        RECORD,
        env=(("OMP_NUM_THREADS", "1"),),
        cpus=CPUS,
        workers=(WorkerPlan(0, None, CPUS[:1], 1, None), WorkerPlan(1, None, CPUS[1:], 1, None)),
        worker_titles=WORKER_TITLES,
        cache_dir=str(paths.cache / "key"),
        health_url=url,
    )
    assert write_handoff(WriteHandoff("test"), record, paths).error is None
    save_report(REPORT, paths)
    (paths.cache / "key").mkdir(parents=True)


def notices(seen: list[Event]) -> list[str]:
    return [event.event for event in seen if isinstance(event, Notice)]


def test_workers_are_proven_when_the_engine_answers_and_again_after_a_restart(paths: Paths) -> None:
    """Nothing is said before health is good; then every worker is on its CPUs, and the boot's report has them."""
    seen: list[Event] = []
    with health({"OMP_NUM_THREADS": "1"}) as answers:
        prepare(paths, answers.url)
        for start in (1, 2):
            answers.is_ready(False)
            with running("VLLM::Worker_DP0=3", "VLLM::Worker_DP1=3") as engine:
                tender = Tender(RealHost(), paths, seen.append, Tree(engine.pid))
                tender.look()
                assert [] == [word for word in notices(seen) if word == "workers.proven"][start - 1 :]
                answers.is_ready(True)
                tender.look()
                before = len(seen)
                tender.look()

                assert before == len(seen)
                assert (paths.cache / "key/complete").exists(), "its kernel cache is one that an engine was ready with"
                assert start == notices(seen).count("workers.proven")
                report = read_boot(paths)
                assert report is not None
                assert [CPUS[:1], CPUS[1:]] == [check.found_cpus for check in report.workers]
                assert [()] * 2 == [check.findings for check in report.workers]
    assert 1 == len(load_reports(paths, 10))


def said(process: str, text: str) -> str:
    return f"({process} pid=7) INFO 11-30 06:29:37 [torch_utils.py:282] {text}"


def test_workers_that_have_loaded_serve_on_their_fast_cpus(paths: Paths) -> None:
    """What the service's log says of threads is on record, and lets a worker that works with one be narrowed."""
    log = (
        (10.0, "kboot: o/m@c, verified; becoming vllm"),
        (12.0, said("Worker_DP0", "Reducing Torch threads from 2 to 1 for serving")),
        (13.0, said("EngineCore_DP0", "init engine (profile, create kv cache, warmup model) took 9.1 s")),
        (14.0, "INFO:     Application startup complete."),
    )
    env = (("OMP_NUM_THREADS", "2"), ("VLLM_OMP_NUM_THREADS_SET_BY_VLLM", "1"))
    with health(dict(env)) as answers, running("VLLM::Worker_DP0=3") as engine:
        prepare(paths, answers.url)
        plan = WorkerPlan(0, None, CPUS, 2, None, serve_cpus=CPUS[:1])
        record = replace(read_handoff(paths), workers=(plan,), env=env)
        assert write_handoff(WriteHandoff("test"), record, paths).error is None
        answers.is_ready(True)
        Tender(RealHost(), paths, lambda _event: None, Tree(engine.pid), log=lambda: log).look()
    report = read_boot(paths)

    assert report is not None
    assert CPUS[0] not in os.sched_getaffinity(0)
    assert [(CPUS[:1], 2, ())] == [(w.found_cpus, w.reported_threads, w.findings) for w in report.workers]
    assert ("serve", 10.0, 14.0) == (report.spans[0].name, report.spans[0].start_unix_s, report.ready_unix_s)
    assert "start server" in [span.name for span in report.spans]


def test_an_engine_that_nobody_planned_is_left_alone(paths: Paths) -> None:
    """No hand-off record: said once, nothing is pinned."""
    seen: list[Event] = []
    with running("VLLM::Worker_DP0=2") as engine:
        tender = Tender(RealHost(), paths, seen.append, Tree(engine.pid))
        tender.look()
        tender.look()

        assert ["workers.unplanned"] == notices(seen)
        assert set(os.sched_getaffinity(0)) == set(os.sched_getaffinity(engine.pid))


def test_a_tender_can_be_ended_at_any_time(paths: Paths) -> None:
    """With no engine at all it waits, and ends at once."""
    tender = Tender(RealHost(), paths, lambda _event: None, Tree(os.getpid()))
    tender.begin()
    tender.end()

    assert "tend" not in {thread.name for thread in threading.enumerate()}


def test_another_process_on_its_port_does_not_make_an_engine_ready(paths: Paths) -> None:
    """What was not started with the record's environment is not the engine: its caches are not called whole."""
    with health({"OMP_NUM_THREADS": "9"}) as other, running("VLLM::Worker_DP0=3") as engine:
        prepare(paths, other.url)
        other.is_ready(True)
        Tender(RealHost(), paths, lambda _event: None, Tree(engine.pid)).look()

    assert not (paths.cache / "key/complete").exists()
