import os
import re
import socket
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from kboot.apply.serve import LogTail, RunningEngine, start_engine
from kboot.demo.checkpoint import make
from kboot.engines import engine
from kboot.engines.logs import LogReader
from kboot.engines.types import Launch
from kboot.errors import ActionFailed, NotReady
from kboot.events import EngineLine, Event, Notice
from kboot.host.paths import Paths
from kboot.host.processes import Child, spawn, stop_tree
from kboot.plan.types import StartEngine
from kboot.report.usual import Usual

NAME = "kboot/demo-moe"


def free_port() -> int:
    """Return a port nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def launch(port: int, **changes: object) -> Launch:
    """A launch of which only the answers matter: what is started is given by exec_argv."""
    base = f"http://127.0.0.1:{port}"
    found = Launch(
        engine="demo",
        argv=(sys.executable,),
        env=(),
        unset=(),
        flags=(),
        health_url=f"{base}/health",
        models_url=f"{base}/v1/models",
        completion_url=f"{base}/v1/completions",
        served_name=NAME,
        ready_timeout_s=60,
        worker_titles=(),
    )
    return replace(found, **changes)  # type: ignore[arg-type]


def script(text: str) -> tuple[str, ...]:
    """Return the command line of a small program in place of `kboot exec`."""
    return (sys.executable, "-c", textwrap.dedent(text))


def gone(pid: int) -> bool:
    """Return whether a process has ended."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    """A node's folders, empty."""
    return Paths(tmp_path / "state", tmp_path / "run", tmp_path / "etc")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small checkpoint."""
    return make(tmp_path_factory.mktemp("model"), 5, 0.1).folder


class Starter:
    """Starts engines and keeps what was emitted."""

    def __init__(self, paths: Paths) -> None:
        self.paths = paths
        self.events: list[Event] = []
        self.stop = threading.Event()
        self.running: list[RunningEngine] = []
        self.usual: dict[str, Usual] = {}
        self.stop_timeout_s = 30.0
        self.on_words: Callable[[], None] | None = None

    def start(self, found: Launch, argv: tuple[str, ...], probe: str = "health") -> RunningEngine:
        """Start and wait."""
        action = StartEngine(found, "asked")
        emit, usual = self.events.append, self.usual
        engine = start_engine(
            action,
            self.paths,
            emit,
            self.stop,
            argv,
            probe,  # type: ignore[arg-type]
            on_words=self.on_words,
            usual=usual,
            stop_timeout_s=self.stop_timeout_s,
        )
        self.running.append(engine)
        return engine

    def demo(self, model: Path, port: int, *args: str) -> tuple[str, ...]:
        """Return the demo engine's command line."""
        command = (sys.executable, "-m", "kboot.demo.engine", "serve", str(model), "--port", str(port))
        return (*command, "--served-model-name", NAME, *args)

    def fails(self, found: Launch, argv: tuple[str, ...], probe: str = "health") -> NotReady:
        """Start what will not get ready; return the error."""
        with pytest.raises(NotReady) as caught:
            self.start(found, argv, probe)
        return caught.value


@pytest.fixture
def starter(paths: Paths) -> Iterator[Starter]:
    """End what a test started."""
    found = Starter(paths)
    yield found
    for running in found.running:
        running.stop(0.0)


class TestReady:
    def test_the_demo_engine(self, starter: Starter, model: Path) -> None:
        """Health, the served model and one token came back; its phases lie between start and ready."""
        port = free_port()
        running = starter.start(launch(port), starter.demo(model, port, "--data-parallel-size", "2"), "completion")

        assert (200, (NAME,)) == (running.answers.health, running.answers.models)
        assert running.answers.completion
        spans = {s.name: s for s in running.spans()}
        assert {"front end", "load model", "read weights", "compile", "graph capture"} <= set(spans)
        assert {("engine", "done")} == {(s.lane, s.status) for s in spans.values()}
        assert all(running.started_unix_s <= s.start_unix_s <= s.end_unix_s for s in spans.values())

    def test_its_log_becomes_events_without_bars(self, starter: Starter, model: Path) -> None:
        """B144: every line with its time, no states of progress bars; started and ready are notices."""
        port = free_port()
        starter.start(launch(port), starter.demo(model, port))
        lines = [e.line for e in starter.events if isinstance(e, EngineLine)]

        assert any("Starting to load model" in line for line in lines)
        assert [] == [line for line in lines if "\r" in line or "% Completed" in line]
        assert ["engine.started", "engine.ready"] == [e.event for e in starter.events if isinstance(e, Notice)]

    def test_its_first_words_are_told(self, starter: Starter, model: Path) -> None:
        """Before it answers: what waits for its import may go on."""
        port, heard = free_port(), threading.Event()
        starter.on_words = heard.set
        starter.start(launch(port), starter.demo(model, port))

        assert heard.is_set()

    def test_it_is_stopped_whole(self, starter: Starter, model: Path) -> None:
        """SIGTERM is enough for the demo engine; no worker is left."""
        port = free_port()
        running = starter.start(launch(port), starter.demo(model, port, "--data-parallel-size", "2"))
        pids = [p.pid for p in psutil.Process(running.child.pid).children(recursive=True)]

        assert running.stop(30.0) is True
        assert [True] * 4 == [gone(pid) for pid in pids]
        assert 0 == running.child.status()

    def test_wait_ends_with_the_event_or_with_the_engine(self, starter: Starter, model: Path) -> None:
        """None when kboot is to stop, the exit status when the engine ended by itself."""
        port = free_port()
        running = starter.start(launch(port), starter.demo(model, port))
        starter.stop.set()
        assert running.wait(starter.stop) is None

        psutil.Process(running.child.pid).terminate()

        assert 0 == running.wait(threading.Event())

    def test_exec_is_told_where_this_nodes_folders_are(self, starter: Starter) -> None:
        """The child finds the record that this kboot wrote, whatever --root or configuration said."""
        argv = script("import os; print(*(os.environ[f'KBOOT_{n}_DIR'] for n in ('STATE', 'RUNTIME', 'CONFIG')))")
        starter.fails(launch(free_port()), argv)
        paths = starter.paths

        assert f"{paths.state} {paths.runtime} {paths.config}\n" == paths.engine_log.read_text()

    def test_a_rank_without_http_is_ready_by_its_log(self, starter: Starter) -> None:
        """A headless node of a multi-node layout is watched by its log alone."""
        argv = script("""
            import time
            print("(EngineCore_DP8 pid=1) INFO 11-30 06:58:14 [core.py:1] "
                  "init engine (profile, create kv cache, warmup model) took 9.1 s", flush=True)
            time.sleep(600)
        """)
        running = starter.start(launch(1, health_url=None, models_url=None, completion_url=None), argv, "completion")

        assert running.answers.health is None
        assert running.child.status() is None


SERVER = """
    import json, sys, time
    from http.server import BaseHTTPRequestHandler, HTTPServer
    class Handler(BaseHTTPRequestHandler):
        def reply(self, status, document):
            body = json.dumps(document).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
        def do_GET(self):
            self.reply(200, {"data": [{"id": "%(name)s"}]})
        def do_POST(self):
            self.rfile.read(int(self.headers["Content-Length"]))
            self.reply(%(status)d, {"error": "no such endpoint"})
        def log_message(self, *args):
            pass
    HTTPServer(("127.0.0.1", %(port)d), Handler).serve_forever()
"""


class TestNotReady:
    def test_it_dies_of_a_broken_model(self, starter: Starter, model: Path, tmp_path: Path) -> None:
        """B052: the error is the engine's first cause, with the rank that said it and the log's path."""
        broken = tmp_path / "broken"
        broken.mkdir()
        for file in model.iterdir():
            if file.is_file() and "00004" not in file.name:
                (broken / file.name).symlink_to(file)
        port = free_port()
        error = starter.fails(launch(port), starter.demo(broken, port))

        assert ("engine-died", 14) == (error.code, error.status)
        assert error.message.startswith("demo ended with status 1 after ")
        assert "referenced in index but missing: ['model-00004-of-00005.safetensors']" in error.message
        assert ("first said by Worker_DP0", str(starter.paths.engine_log)) == error.where

    def test_exec_refuses(self, starter: Starter) -> None:
        """What `kboot exec` said last is the cause where no engine said anything."""
        argv = script("import sys; print('error: handoff-stale', file=sys.stderr); sys.exit(13)")
        error = starter.fails(launch(free_port()), argv)

        assert "demo ended with status 13 after 0 s, before it answered: error: handoff-stale" == error.message

    @pytest.mark.parametrize(
        ("status", "words"),
        [(0, "ended with status 0 (it took its work for done"), (126, "may not be executed"), (127, "was not found")],
    )
    def test_it_ends_at_once_without_a_word(self, starter: Starter, status: int, words: str) -> None:
        """Statuses that shells give a meaning are put in words; what kboot said on the way is never the cause."""
        said = "kboot: org/model@abc, all bytes hashed; becoming command"
        error = starter.fails(launch(free_port()), ("/bin/sh", "-c", f"echo '{said}'; exit {status}"))

        assert words in error.message
        assert error.message.endswith("it said nothing")

    def test_it_is_killed(self, starter: Starter) -> None:
        """An engine that the kernel ended without a word is said to have been."""
        error = starter.fails(launch(free_port()), script("import os; os.kill(os.getpid(), 9)"))

        assert "was ended by signal 9" in error.message
        assert error.message.endswith("it said nothing")

    def test_it_does_not_answer_in_time(self, starter: Starter) -> None:
        """The phase it hangs in, for how long, and how long that usually takes are said, and it does not live on."""
        argv = script("""
            import os, time
            print("(Worker_DP0 pid=1) INFO 11-30 06:58:14 [m.py:1] Starting to load model", os.getpid(), flush=True)
            time.sleep(600)
        """)
        starter.usual = {"load model": Usual(0.5, 7)}
        error = starter.fails(launch(free_port(), ready_timeout_s=8), argv)
        pid = int(starter.paths.engine_log.read_text().split()[-1])

        assert "engine-not-ready" == error.code
        assert re.search(
            r"wanted 8 s at most; it is at load model for [1-8] s, usually 0 s \(median of 7 boots\)$", error.message
        )
        assert error.where[0].startswith("its last line: Starting to load model")
        assert gone(pid)

    def test_kboot_is_to_stop(self, starter: Starter) -> None:
        """SIGTERM during the wait ends the engine as well."""
        log = starter.paths.engine_log

        def stop_once_it_runs() -> None:
            while not (log.exists() and log.read_text().endswith("\n")):
                time.sleep(0.02)
            starter.stop.set()

        threading.Thread(target=stop_once_it_runs, daemon=True).start()
        argv = script("import os, time; print(os.getpid(), flush=True); time.sleep(600)")
        error = starter.fails(launch(free_port()), argv)

        assert "interrupted" == error.code
        assert gone(int(log.read_text()))

    def test_the_profiles_stop_timeout_holds_before_it_answers(self, starter: Starter) -> None:
        """One that is slow to obey SIGTERM while it starts is killed after the seconds given."""
        starter.stop_timeout_s = 0.2
        argv = script("""
            import os, signal, time
            def linger(*_):
                time.sleep(20)
                print("ended by itself", flush=True)
                os._exit(0)
            signal.signal(signal.SIGTERM, linger)
            print(os.getpid(), flush=True)
            time.sleep(600)
        """)
        starter.fails(launch(free_port(), ready_timeout_s=6), argv)
        said = starter.paths.engine_log.read_text().splitlines()

        assert 1 == len(said)
        assert gone(int(said[0]))

    def test_another_model_answers(self, starter: Starter) -> None:
        """A healthy server with another model is not the engine that was asked for."""
        port = free_port()
        error = starter.fails(launch(port), script(SERVER % {"name": "other", "status": 200, "port": port}))

        assert "the engine serves other, wanted kboot/demo-moe" == error.message

    def test_it_refuses_the_completion(self, starter: Starter) -> None:
        """A status that will not change is not waited for."""
        port = free_port()
        argv = script(SERVER % {"name": NAME, "status": 404, "port": port})
        error = starter.fails(launch(port), argv, "completion")

        assert ("engine-refuses-completion", True) == (error.code, "with 404" in error.message)

    def test_another_engine_answers_on_its_port(self, starter: Starter) -> None:
        """Two that found the port free: the one whose engine does not hold it is not ready, and names the holder."""
        port = free_port()
        answers = script(SERVER % {"name": NAME, "status": 200, "port": port})
        log = starter.paths.engine_log.with_name("other.log")
        log.parent.mkdir(parents=True)
        others: list[Child] = []

        def begin(_pid: int) -> None:
            others.append(spawn(answers, {}, log))

        argv = script("import os, time; print(os.getpid(), flush=True); time.sleep(600)")
        action = StartEngine(launch(port), "asked")
        try:
            with pytest.raises(ActionFailed) as caught:
                start_engine(action, starter.paths, starter.events.append, starter.stop, argv, on_start=begin)
        finally:
            stop_tree(others[0], 30)

        assert "port-in-use" == caught.value.code
        assert f"held by pid {others[0].pid} " in caught.value.message
        assert "engine.ready" not in [e.event for e in starter.events if isinstance(e, Notice)]

    def test_who_is_told_of_the_start_cannot_leave_an_engine_behind(self, starter: Starter) -> None:
        """Whatever it raises, the process it was told of is gone."""
        pids: list[int] = []

        def begin(pid: int) -> None:
            pids.append(pid)
            raise ValueError("no")

        action = StartEngine(launch(free_port()), "asked")
        argv = script("import time; time.sleep(600)")
        with pytest.raises(ValueError, match="no"):
            start_engine(action, starter.paths, starter.events.append, starter.stop, argv, on_start=begin)

        assert not Path(f"/proc/{pids[0]}").exists()

    def test_the_port_is_taken(self, starter: Starter) -> None:
        """Nothing is started; the holder's pid is named."""
        with socket.create_server(("127.0.0.1", 0)) as server, pytest.raises(ActionFailed) as caught:
            starter.start(launch(server.getsockname()[1]), script(""))

        assert ("port-in-use", 13) == (caught.value.code, caught.value.status)
        assert f"held by pid {os.getpid()} " in caught.value.message
        assert not starter.paths.engine_log.exists()


class TestLog:
    @pytest.fixture
    def tail(self, tmp_path: Path) -> tuple[LogTail, list[Event]]:
        """A tail of an empty log."""
        events: list[Event] = []
        (tmp_path / "log").write_bytes(b"")
        return LogTail(tmp_path / "log", LogReader(engine("vllm"), 0.0), events.append, 0), events

    def write(self, tail: LogTail, data: bytes) -> None:
        """Append to the log and poll."""
        with tail.path.open("ab") as file:
            file.write(data)
        tail.poll()

    def lines(self, events: list[Event]) -> list[str]:
        """Return the lines that were emitted."""
        return [e.line for e in events if isinstance(e, EngineLine)]

    def test_a_line_is_taken_when_it_is_whole(self, tail: tuple[LogTail, list[Event]]) -> None:
        """Bytes that arrive in pieces, a character cut in the middle included, are one line."""
        found, events = tail
        self.write(found, "caf\u00e9".encode()[:-1])
        assert [] == self.lines(events)

        self.write(found, "caf\u00e9".encode()[-1:] + b"\nnext")
        assert ["caf\u00e9"] == self.lines(events)

        found.drain()
        assert ["caf\u00e9", "next"] == self.lines(events)

    def test_a_line_without_end_is_bounded(self, tail: tuple[LogTail, list[Event]]) -> None:
        """A program that never writes a newline does not fill the memory."""
        found, events = tail
        for _ in range(3):
            self.write(found, b"x" * (50 << 10))

        assert [64 << 10] == [len(line) for line in self.lines(events)]

    def test_a_log_that_is_rotated_ends_no_engine(self, tail: tuple[LogTail, list[Event]]) -> None:
        """What stands in it after it was cut is read; once it was moved away, nothing more comes."""
        found, events = tail
        self.write(found, b"a line of some length\n")
        found.path.write_bytes(b"")
        self.write(found, b"after\n")
        found.path.rename(found.path.with_name("log.1"))
        found.poll()
        found.drain()

        assert ["a line of some length", "after"] == self.lines(events)

    def test_a_token_never_leaves_the_tail(self, tail: tuple[LogTail, list[Event]]) -> None:
        """B029: what an engine prints of its arguments is masked before anybody sees it."""
        found, events = tail
        self.write(found, b"non-default args: {'hf_token': 'hf_EXAMPLExxxxxxxxxxx'}\n")

        assert ["non-default args: {'hf_token': 'hf_***'}"] == self.lines(events)

    def test_an_old_log_is_not_read_again(self, starter: Starter) -> None:
        """The cause of the last boot's failure is not this one's."""
        log = starter.paths.engine_log
        log.parent.mkdir(parents=True)
        log.write_text("ModuleNotFoundError: No module named 'flashinfer'\n")
        error = starter.fails(launch(free_port()), script("print('new')"))

        assert error.message.endswith("before it answered: new")

    def test_a_log_that_has_grown_too_large_is_put_aside(self, starter: Starter) -> None:
        """64 MiB at most, and the one before."""
        log = starter.paths.engine_log
        log.parent.mkdir(parents=True)
        with open(log, "wb") as file:
            file.truncate(65 << 20)
        starter.fails(launch(free_port()), script("print('new')"))

        assert ("new\n", 65 << 20) == (log.read_text(), log.with_name("engine.log.1").stat().st_size)
