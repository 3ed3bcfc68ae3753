"""Serves in the foreground what a boot has prepared: the demo engine, started through `kboot exec`."""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from booting import Node, profile
from cli.cli_run import hub
from kboot.apply.handoff import read_handoff
from kboot.apply.pin import live_workers
from kboot.boot import boot
from kboot.errors import ActionFailed
from kboot.facts.process import Tree
from kboot.host.pagecache import resident_bytes
from kboot.options import BootOptions
from kboot.profile.types import Profile, WarmAsk
from kboot.report.saved import read_boot
from kboot.report.types import BootReport, WorkerCheck


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The demo Hub with six shards."""
    with hub(tmp_path_factory.mktemp("hub")) as url:
        yield url


@pytest.fixture
def node(tmp_path: Path, endpoint: str) -> Node:
    """A node nobody has booted yet."""
    return Node(tmp_path, endpoint)


@pytest.fixture
def served() -> Profile:
    """The demo profile on a free port."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    asked = profile()
    return replace(asked, serve=replace(asked.serve, port=port))


def engines_of(node: Node) -> list[psutil.Process]:
    """Processes that serve this node's model."""
    model = str(node.paths.models / "demo")
    return [p for p in psutil.process_iter(["cmdline"]) if model in (p.info["cmdline"] or [])]


def test_a_boot_serves_answers_marks_its_cache_and_leaves_nothing_running(node: Node, served: Profile) -> None:
    """--serve --exit-when-ready: health, model and one completion came back; phases of the engine are in the report."""
    report = node.boot(served, serve=True, exit_when_ready=True)

    assert ("done", None) == (report.status, report.error)
    assert report.ready_unix_s is not None
    assert "completion" in node.notices()["engine.answered"]
    assert {"serve", "fetch"} <= {s.name for s in report.spans}
    assert any(s.lane == "engine" for s in report.spans)
    assert list(node.paths.cache.glob("*/complete"))
    assert [] == engines_of(node)


def test_the_page_cache_is_warmed_beside_the_engines_start(node: Node, served: Profile) -> None:
    """A boot from cold pages hands off without warming first; each cold shard was read, or left for the engine."""
    node.boot(served)
    shards = [path.resolve() for path in (node.paths.models / "demo").glob("*.safetensors")]
    for shard in shards:
        fd = os.open(shard, os.O_RDONLY)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(fd)
    cold = [path for path in shards if not resident_bytes(path)]
    plan = node.plan(served, serve=True)
    report = node.boot(served, serve=True, exit_when_ready=True)
    warmed = [o for o in report.outcomes if o.phase == "warm" and ".safetensors" in o.title]

    assert "warm" not in next(p.after for p in plan.phases if p.name == "handoff")
    assert len(cold) == len(warmed)
    assert {o.status for o in warmed} <= {"done", "unchanged", "skipped"}
    assert "done" == report.status


def test_every_worker_is_proven_to_have_its_share(node: Node, served: Profile) -> None:
    """Found by title, on the CPUs of the plan, with the share its own log tells; while it runs and in the report."""
    live: list[WorkerCheck] = []

    def on_ready(report: BootReport) -> None:
        record = read_handoff(node.paths)
        scope = Tree(engines_of(node)[0].pid)
        live.extend(
            live_workers(record.workers, record.worker_titles, dict(record.env), node.host, [scope], report.workers)
        )
        node.stop.set()

    report = boot(served, node.host, node.paths, BootOptions(serve=True), node.seen.append, node.stop, on_ready)
    planned = node.plan(served).placement.workers

    assert [(w.worker, w.cpus, w.threads) for w in planned] == [
        (c.worker, c.planned_cpus, c.planned_threads) for c in report.workers
    ]
    assert [("title", 0, c.planned_threads) for c in report.workers] == [
        (c.found_by, c.stray_tasks, c.reported_threads) for c in report.workers
    ]
    assert [(c.pid, c.found_cpus, c.reported_threads) for c in report.workers] == [
        (c.pid, c.found_cpus, c.reported_threads) for c in live
    ]
    assert report.workers == (read_boot(node.paths) or report).workers


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs a CPU for each worker")
def test_workers_that_nobody_bound_are_pinned_while_they_run(node: Node, served: Profile) -> None:
    """A command line of the operator's own that knows no pins: each worker ends up on its CPUs, and the log says so."""
    (layout,) = served.layout
    words = (sys.executable, "-m", "kboot.demo.engine", "serve", "{model}", "--host", "{host}", "--port", "{port}")
    words += ("--served-model-name", "{served_name}", "--data-parallel-size", "2")
    command = replace(layout, engine="command", command=words)
    report = node.boot(replace(served, layout=(command,)), serve=True, exit_when_ready=True)

    assert ("done", None) == (report.status, report.error)
    assert [0, 0] == [c.stray_tasks for c in report.workers]
    assert all(set(c.found_cpus) <= set(c.planned_cpus) for c in report.workers)
    assert not set(report.workers[0].found_cpus) & set(report.workers[1].found_cpus)
    assert "threads are kept to CPUs" in node.notices()["worker.pinned"]


def test_a_second_serve_finds_everything_in_place(node: Node, served: Profile) -> None:
    """Only the engine is started: nothing is fetched, the cache is the same one.

    Without warming, which has work whenever the kernel took pages back.
    """
    asked = replace(served, warm=WarmAsk(enabled=False))
    node.boot(asked, serve=True, exit_when_ready=True)
    second = node.boot(asked, serve=True, exit_when_ready=True)

    assert "done" == second.status
    assert {"serve"} == {o.phase for o in second.outcomes}
    assert 1 == len(list(node.paths.cache.iterdir()))


def test_the_report_is_given_when_the_engine_answers_and_a_stop_ends_it(node: Node, served: Profile) -> None:
    """on_ready comes while the engine runs; the stop event then ends it, and the boot stays done."""
    given: list[BootReport] = []

    def on_ready(report: BootReport) -> None:
        assert engines_of(node)
        given.append(report)
        node.stop.set()

    options = BootOptions(serve=True)
    report = boot(served, node.host, node.paths, options, node.seen.append, node.stop, on_ready)

    assert ["done"] == [r.status for r in given]
    assert "done" == report.status
    assert [] == engines_of(node)


def test_an_engine_that_dies_while_serving_is_a_failure_with_its_signal(node: Node, served: Profile) -> None:
    """SIGKILL of the front end: exit status 14, the signal named, no orphan left."""

    def on_ready(_: BootReport) -> None:
        front = engines_of(node)[0]
        threading.Timer(0.2, os.kill, (front.pid, signal.SIGKILL)).start()

    options = BootOptions(serve=True)
    report = boot(served, node.host, node.paths, options, node.seen.append, node.stop, on_ready)

    assert ("failed", 14) == (report.status, report.error and report.error.status)
    assert report.error is not None
    assert "signal 9" in report.error.message
    assert [] == engines_of(node)


def test_a_port_in_use_is_said_before_the_engine_starts(node: Node, served: Profile) -> None:
    """Someone listens on the engine's port: one error that names the port, and no engine."""
    with socket.create_server(("127.0.0.1", served.serve.port)):
        report = node.boot(served, serve=True, exit_when_ready=True)

    assert report.error is not None
    assert ("failed", "port-in-use") == (report.status, report.error.code)
    assert str(served.serve.port) in report.error.message
    assert [] == engines_of(node)


def test_a_stop_before_the_engine_answers_is_an_interruption(node: Node, served: Profile) -> None:
    """The event is set while the engine starts: status interrupted, nothing left running."""
    seen = node.seen

    def emit(event: object) -> None:
        seen.append(event)  # type: ignore[arg-type]
        if getattr(event, "event", "") == "engine.started":
            node.stop.set()

    report = boot(served, node.host, node.paths, BootOptions(serve=True), emit, node.stop)

    assert "interrupted" == report.status
    assert "interrupted" == node.endings()["serve"]
    assert ["interrupted"] == [s.status for s in report.spans if s.name == "serve"]
    assert [] == engines_of(node)


def test_a_command_that_does_not_exist_is_said_before_anything_is_fetched(node: Node, served: Profile) -> None:
    """The program is named, by the plan already, and no byte of the checkpoint was fetched for it."""
    layout = replace(served.layout[0], engine="command", command=("/nonexistent/engine",))
    asked = replace(served, layout=(layout,))
    warnings = node.plan(asked).warnings

    with pytest.raises(ActionFailed, match="the engine's program /nonexistent/engine is not there") as caught:
        node.boot(asked, serve=True)

    assert "engine-program-missing" == caught.value.code
    assert any("boot will refuse: /nonexistent/engine is not there" in warning for warning in warnings)
    assert [] == list(node.paths.models.glob("*"))
