"""What `kboot exec` hands to the engine, and when it refuses to."""

from __future__ import annotations

import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from cli_run import DEADLINE_S, Kboot, hub, wait_for

from booting import free_port
from kboot.apply.handoff import read_handoff
from kboot.host.paths import Paths


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The demo Hub."""
    with hub(tmp_path_factory.mktemp("hub")) as url:
        yield url


@pytest.fixture
def node(kboot: Kboot, endpoint: str) -> tuple[Kboot, int]:
    """A node that was booted, and the port its engine will have."""
    kboot.env["HF_ENDPOINT"] = endpoint
    port = free_port()
    ran = kboot("boot", "--profile", "demo", "--set", f"serve.port={port}", "--set", "serve.host=127.0.0.1")
    assert 0 == ran.status, ran.err
    return kboot, port


@contextmanager
def engine(kboot: Kboot, port: int, **env: str) -> Iterator[subprocess.Popen[bytes]]:
    """An engine that answers."""
    with open(kboot.folder / "engine.log", "wb") as log:
        argv = [sys.executable, "-m", "kboot", "exec"]
        process = subprocess.Popen(argv, stdout=log, stderr=log, env={**kboot.environ, **env}, start_new_session=True)
    try:
        wait_for(lambda: answers(f"http://127.0.0.1:{port}/health"), process)
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(DEADLINE_S)


def answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def test_the_engine_knows_nothing_of_the_service_manager(node: tuple[Kboot, int]) -> None:
    """B141: NOTIFY_SOCKET and WATCHDOG_* are removed; nothing the engine starts speaks in kboot's name."""
    lines = (Path(__file__).parents[1] / "cases/B141/env").read_text().split()
    told = dict(line.split("=", 1) for line in lines)
    with engine(*node, **told) as process:
        given = dict(
            line.split("=", 1) for line in Path(f"/proc/{process.pid}/environ").read_text().split("\0") if "=" in line
        )

    assert {"NOTIFY_SOCKET", "WATCHDOG_PID", "WATCHDOG_USEC"} == set(told)
    assert set() == set(told) & set(given)
    assert "OMP_NUM_THREADS" in given


def test_a_second_start_beside_a_live_engine_is_refused(node: tuple[Kboot, int]) -> None:
    """B139: the engine of an earlier start is not gone: status 13, its pid in the message, and it serves on."""
    kboot, port = node
    with engine(kboot, port) as first:
        second = kboot("exec")
        still = answers(f"http://127.0.0.1:{port}/health")

    assert (13, True) == (second.status, still)
    assert "engine-left-over" in second.err
    assert f"pid {first.pid} (" in " ".join(second.err.split())
    assert "it runs already" in " ".join(second.err.split())


def test_the_record_holds_the_command_line_that_is_looked_for(node: tuple[Kboot, int]) -> None:
    """After the engine has ended, nothing is left over and it starts again."""
    kboot, port = node
    record = read_handoff(Paths(kboot.folder / "state", kboot.folder / "run", kboot.folder / "etc"))
    for _ in range(2):
        with engine(kboot, port) as process:
            words = Path(f"/proc/{process.pid}/cmdline").read_text().rstrip("\0").split("\0")
        assert record.argv == tuple(words)
