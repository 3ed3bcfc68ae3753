import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from kboot.demo.checkpoint import make
from kboot.engines import engine
from kboot.engines.logs import LogReader

NAME = "kboot/demo-moe"


def free_port() -> int:
    """Return a port nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def until(true: Callable[[], object], seconds: float = 60.0) -> None:
    """Wait for something that will come."""
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, "did not happen in time"
        time.sleep(0.02)


class Engine:
    """A running demo engine."""

    def __init__(self, model: Path, home: Path, *args: str, threads: int = 1) -> None:
        self.port = free_port()
        self.log_path = home / "engine.log"
        self.cache = home / "cache"
        env = {"PATH": os.environ["PATH"], "OMP_NUM_THREADS": str(threads), "VLLM_CACHE_ROOT": str(self.cache)}
        command = [sys.executable, "-m", "kboot.demo.engine", "serve", str(model), "--port", str(self.port)]
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(
                [*command, "--served-model-name", NAME, *args], stdout=log, stderr=log, env=env
            )

    def ask(self, path: str, body: bytes | None = None) -> tuple[int, Any]:
        """Ask an endpoint; status 0 when nothing answers."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", body, timeout=10) as response:
                status, data = response.status, response.read()
        except urllib.error.HTTPError as exc:
            status, data = exc.code, exc.read()
        except OSError:
            return 0, None
        try:
            return status, json.loads(data)
        except ValueError:
            return status, data.decode()

    def ready(self) -> "Engine":
        """Wait until it serves."""
        until(lambda: self.process.poll() is not None or self.ask("/health")[0] == 200)
        assert self.process.poll() is None, self.log()
        return self

    def log(self) -> str:
        """Return what it wrote."""
        return self.log_path.read_text()

    def tree(self) -> dict[str, psutil.Process]:
        """Return its descendants by title."""
        found = psutil.Process(self.process.pid).children(recursive=True)
        return {" ".join(p.cmdline()).strip(): p for p in found}

    def complete(self, prompt: str, tokens: int = 8) -> str:
        """Return a continuation."""
        body = json.dumps({"model": NAME, "prompt": prompt, "max_tokens": tokens}).encode()
        return str(self.ask("/v1/completions", body)[1]["choices"][0]["text"])


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small checkpoint."""
    return make(tmp_path_factory.mktemp("model"), 5, 0.1).folder


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Engine]]:
    """Start engines; end them after the test."""
    engines: list[Engine] = []

    def begin(model: Path, *args: str, threads: int = 1) -> Engine:
        engines.append(Engine(model, tmp_path, *args, threads=threads))
        return engines[-1]

    yield begin
    for found in engines:
        found.process.terminate()
        found.process.wait(30)


@pytest.fixture(scope="module")
def serving(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """Two ranks, experts spread, serving."""
    found = Engine(
        model, tmp_path_factory.mktemp("engine"), "--data-parallel-size", "2", "--enable-expert-parallel", threads=3
    )
    yield found.ready()
    found.process.terminate()
    found.process.wait(30)


class TestServing:
    def test_endpoints(self, serving: Engine) -> None:
        """What a client of vLLM asks is answered."""
        assert (200, "") == serving.ask("/health")
        assert [NAME] == [m["id"] for m in serving.ask("/v1/models")[1]["data"]]
        assert "0.26.0+demo" == serving.ask("/version")[1]["version"]
        assert f'vllm:num_requests_running{{model_name="{NAME}"}} 0' in serving.ask("/metrics")[1]
        assert (404, {"detail": "Not Found"}) == serving.ask("/v1/nothing")

    def test_a_completion_follows_from_weights_and_prompt(self, serving: Engine) -> None:
        """The same prompt gives the same words, another prompt others; as many as asked for."""
        first = serving.complete("The boot", 8)

        assert first == serving.complete("The boot", 8)
        assert first != serving.complete("A boot", 8)
        assert 8 == len(first.split())

    @pytest.mark.parametrize(
        ("body", "status", "kind"),
        [
            (b"not json", 400, "BadRequestError"),
            (b'{"prompt": "no model"}', 400, "BadRequestError"),
            (b'{"model": "other", "prompt": "x"}', 404, "NotFoundError"),
            (b'{"model": "kboot/demo-moe", "prompt": "x", "max_tokens": 1000000}', 400, "BadRequestError"),
        ],
    )
    def test_a_wrong_request_is_a_json_error(self, serving: Engine, body: bytes, status: int, kind: str) -> None:
        """In OpenAI's form, with status and type."""
        found, document = serving.ask("/v1/completions", body)

        assert (status, kind) == (found, document["error"]["type"])

    def test_one_worker_per_rank_titled_as_vllm_titles_them(self, serving: Engine) -> None:
        """/proc/PID/cmdline is the title, comm its first 15 characters; each worker is its core's child."""
        tree = serving.tree()
        parents = {title: tree[title].parent() for title in tree}

        assert ["VLLM::EngineCore_DP0", "VLLM::EngineCore_DP1", "VLLM::Worker_DP0_EP0", "VLLM::Worker_DP1_EP1"] == (
            sorted(tree)
        )
        assert tree["VLLM::EngineCore_DP1"] == parents["VLLM::Worker_DP1_EP1"]
        assert "VLLM::EngineCor" == Path(f"/proc/{tree['VLLM::EngineCore_DP0'].pid}/comm").read_text().strip()

    def test_titles_are_those_the_adapter_looks_for(self, serving: Engine) -> None:
        """The demo adapter's pattern finds the workers and nothing else."""
        from kboot.engines.vllm import WORKER_TITLES

        assert 2 == len([t for t in serving.tree() if re.match(WORKER_TITLES[0], t)])

    def test_kboot_reads_its_log_as_vllms(self, serving: Engine) -> None:
        """All phases are there and over, the thread share is the one given, nothing failed."""
        reader = LogReader(engine("demo"), 0.0)
        for second, line in enumerate(serving.log().replace("\r", "\n").splitlines()):
            reader.feed(float(second), line)
        spans = {s.name: s.end_unix_s is not None for s in reader.spans()}

        assert {
            "front end": True,
            "workers": True,
            "distributed init": True,
            "load model": True,
            "read weights": True,
            "compile": True,
            "profiling run": True,
            "graph capture": True,
            "start server": True,
        } == spans
        assert {"Worker_DP0_EP0": 3, "Worker_DP1_EP1": 3} == reader.threads()
        assert (None, None) == (reader.failure(), reader.current())

    def test_a_port_that_is_taken_is_said_and_ends_it(self, serving: Engine, model: Path, tmp_path: Path) -> None:
        """As vLLM: an OSError, status 1, before anything is loaded."""
        command = [sys.executable, "-m", "kboot.demo.engine", "serve", str(model), "--port", str(serving.port)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)

        assert 1 == done.returncode
        assert "OSError: [Errno 98] Address already in use" in done.stderr


class TestLayouts:
    def test_the_model_is_the_same_over_any_number_of_ranks(self, start: Callable[..., Engine], model: Path) -> None:
        """Every tensor is read by someone: 1 rank, 3 ranks with spread experts and 2 without answer alike."""
        layouts = (
            (),
            ("--data-parallel-size", "3", "--enable-expert-parallel"),
            ("--data-parallel-size", "2"),
        )

        assert 1 == len({start(model, *args).ready().complete("x") for args in layouts})

    def test_a_worker_runs_on_the_cpus_it_was_given(self, start: Callable[..., Engine], model: Path) -> None:
        """The demo's workers pin themselves before they load, so planned and found can be compared."""
        cpu = max(os.sched_getaffinity(0))
        found = start(model, "--numa-bind-cpus", str(cpu)).ready()

        assert {cpu} == os.sched_getaffinity(found.tree()["VLLM::Worker_DP0"].pid)

    def test_the_second_start_finds_what_the_first_compiled(self, start: Callable[..., Engine], model: Path) -> None:
        """A miss writes a file, the next start with the same cache folder loads it."""
        first = start(model).ready()
        first.process.terminate()
        first.process.wait(30)
        cold = first.log()
        kept = [p for p in first.cache.rglob("*") if p.is_file()]
        start(model).ready()
        warm = first.log().removeprefix(cold)

        assert 1 == len(kept)
        assert [True, False] == [t in cold for t in ("saved AOT compiled", "Directly load")]
        assert [False, True] == [t in warm for t in ("saved AOT compiled", "Directly load AOT compilation from path")]

    def test_a_damaged_cache_is_a_miss(self, start: Callable[..., Engine], model: Path) -> None:
        """B114: an entry cut by a power loss is made again."""
        first = start(model).ready()
        first.process.terminate()
        first.process.wait(30)
        (entry,) = [p for p in first.cache.rglob("*") if p.is_file()]
        entry.write_bytes(b"")
        start(model).ready()

        assert 2 == first.log().count("saved AOT compiled function")


class TestBrokenModel:
    def broken(self, model: Path, tmp_path: Path) -> Path:
        """Return a copy to break."""
        copy = tmp_path / "model"
        shutil.copytree(model, copy)
        return copy

    def cause(self, found: Engine) -> tuple[str, str]:
        """Wait for the end; return rank and text of the first cause."""
        assert 1 == found.process.wait(60)
        reader = LogReader(engine("demo"), 0.0)
        for line in found.log().replace("\r", "\n").splitlines():
            reader.feed(1.0, line)
        failure = reader.failure()
        assert failure is not None
        assert "Engine core initialization failed. See root cause above." in found.log()
        return failure.process, failure.text

    def test_a_missing_shard(self, start: Callable[..., Engine], model: Path, tmp_path: Path) -> None:
        """B052: the index names a file that is not there."""
        copy = self.broken(model, tmp_path)
        (copy / "model-00003-of-00005.safetensors").unlink()
        process, text = self.cause(start(copy))

        assert "Worker_DP0" == process
        assert text.endswith("referenced in index but missing: ['model-00003-of-00005.safetensors']")

    def test_a_cut_shard(self, start: Callable[..., Engine], model: Path, tmp_path: Path) -> None:
        """B060: a shard that ends before its last tensor."""
        copy = self.broken(model, tmp_path)
        shard = copy / "model-00002-of-00005.safetensors"
        os.truncate(shard, shard.stat().st_size - 4)
        _, text = self.cause(start(copy))

        assert re.match(r"\S*SafetensorError: Error while deserializing header: incomplete metadata", text)

    def test_a_pointer_in_place_of_a_shard(self, start: Callable[..., Engine], model: Path, tmp_path: Path) -> None:
        """B062: what a git clone without LFS leaves."""
        copy = self.broken(model, tmp_path)
        (copy / "model-00001-of-00005.safetensors").write_text("version https://git-lfs.github.com/spec/v1\n")
        _, text = self.cause(start(copy))

        assert "header too large: model-00001-of-00005.safetensors" in text

    def test_no_model_at_all(self, start: Callable[..., Engine], tmp_path: Path) -> None:
        """An empty folder is refused by the front end."""
        found = start(tmp_path / "absent")

        assert 1 == found.process.wait(60)
        assert "FileNotFoundError" in found.log()


def gone(process: psutil.Process) -> bool:
    """Return whether a process has ended."""
    try:
        return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


class TestEnd:
    def test_sigterm_ends_everything(self, start: Callable[..., Engine], model: Path) -> None:
        """Status 0, and no core or worker is left."""
        found = start(model, "--data-parallel-size", "2").ready()
        tree = found.tree().values()
        found.process.terminate()

        assert 0 == found.process.wait(30)
        assert [True] * 4 == [gone(p) for p in tree]

    def test_sigterm_while_starting(self, start: Callable[..., Engine], model: Path) -> None:
        """Also before the model is loaded."""
        found = start(model)
        until(lambda: "Initializing a V1 LLM engine" in found.log())
        found.process.terminate()

        assert 0 == found.process.wait(30)

    def test_killed_front_end_leaves_no_orphans(self, start: Callable[..., Engine], model: Path) -> None:
        """B139: after kill -9 of the front end, cores and workers end by themselves."""
        found = start(model, "--data-parallel-size", "2").ready()
        tree = found.tree().values()
        found.process.send_signal(signal.SIGKILL)

        until(lambda: all(gone(p) for p in tree))

    def test_a_killed_worker_ends_the_engine(self, start: Callable[..., Engine], model: Path) -> None:
        """An engine without a rank does not answer: status 1, and the log says which process died how."""
        found = start(model, "--data-parallel-size", "2").ready()
        found.tree()["VLLM::Worker_DP1"].send_signal(signal.SIGKILL)

        assert 1 == found.process.wait(30)
        assert "Worker proc VllmWorker-0 died unexpectedly (exit code: -9)" in found.log()
        assert "EngineDeadError: EngineCore_DP1 died" in found.log()
