"""Watching a real daemon: scrapes, health pages, the textfile, and the end of its machine."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from cli_run import DEADLINE_S, Kboot, hub, wait_for

from booting import free_port
from report.test_metrics import parse


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The demo Hub, slow enough to be seen at work."""
    with hub(tmp_path_factory.mktemp("hub")) as url:
        yield url


def get(port: int, path: str) -> tuple[int, str]:
    """Return status and text; 0 where nobody listens yet."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
    except OSError:
        return 0, ""


@contextmanager
def daemon(kboot: Kboot, port: int, *more: str) -> Iterator[subprocess.Popen[bytes]]:
    text = f'schema = 1\nprofile = "demo"\nmetrics_port = {port}\nmetrics_file = "{kboot.folder}/kboot.prom"\n'
    (kboot.folder / "etc/kboot.toml").write_text(text + "".join(f"{line}\n" for line in more))
    with open(kboot.folder / "log", "wb") as log:
        argv = [sys.executable, "-m", "kboot", "daemon", "--set", f"serve.port={free_port()}"]
        process = subprocess.Popen(argv, stdout=log, stderr=log, env=kboot.environ)
    try:
        yield process
    finally:
        process.terminate()
        process.wait(DEADLINE_S)


def events(kboot: Kboot) -> list[str]:
    return [json.loads(line)["event"] for line in (kboot.folder / "log").read_text().splitlines()]


def test_a_prepared_node_is_scraped(kboot: Kboot, endpoint: str) -> None:
    """/metrics holds by the format and says what the boot did; alive, and not ready as long as no engine answers."""
    kboot.env["HF_ENDPOINT"] = endpoint
    port = free_port()
    with daemon(kboot, port) as process:
        wait_for(lambda: 'kboot_state{state="ready"} 1' in get(port, "/metrics")[1], process)
        found = parse(get(port, "/metrics")[1])
        alive, ready, other = get(port, "/livez"), get(port, "/readyz"), get(port, "/")
        wait_for(lambda: (kboot.folder / "kboot.prom").exists(), process)

    assert (1, 0, 0) == (
        found["kboot_last_boot_success"],
        found["kboot_engine_ready"],
        found["kboot_reclaim_notice"],
    )
    assert found["kboot_last_boot_fetched_bytes"] > 3_000_000
    assert found['kboot_phase_files_done{phase="fetch"}'] >= 6
    assert 0 <= found["kboot_verify_age_seconds"] < 3600
    assert (200, "ok\n") == alive
    assert (503, "the node is prepared, and the engine does not answer\n") == ready
    assert 404 == other[0]
    assert "kboot_info" in (kboot.folder / "kboot.prom").read_text()


def test_a_port_that_is_taken_keeps_no_node_from_its_work(kboot: Kboot, endpoint: str) -> None:
    """It is said in the log, and the node gets ready."""
    kboot.env["HF_ENDPOINT"] = endpoint
    with subprocess.Popen([sys.executable, "-c", LISTEN], stdout=subprocess.PIPE, text=True) as taken:
        assert taken.stdout is not None
        port = int(taken.stdout.readline())
        with daemon(kboot, port) as process:
            wait_for(lambda: kboot("status", "--json").doc["state"] == "ready", process)
        taken.kill()

    assert "metrics.not_served" in events(kboot)


LISTEN = """
import socket
with socket.create_server(("127.0.0.1", 0)) as server:
    print(server.getsockname()[1], flush=True)
    server.accept()
"""


def test_a_notice_ends_an_engine_in_the_foreground(kboot: Kboot, endpoint: str, tmp_path: Path) -> None:
    """`boot --serve` without a service manager: the engine is stopped in order, with status 0."""
    leave = tmp_path / "leave"
    (kboot.folder / "etc/kboot.toml").write_text(f'schema = 1\nreclaim = ["command:test -e {leave}"]\n')
    kboot.env["HF_ENDPOINT"] = endpoint
    serve = ("--serve", "--json", "--set", f"serve.port={free_port()}", "--set", "serve.host=127.0.0.1")
    with open(kboot.folder / "out", "wb") as out, open(kboot.folder / "log", "wb") as log:
        argv = [sys.executable, "-m", "kboot", "boot", "--profile", "demo", *serve]
        process = subprocess.Popen(argv, stdout=out, stderr=log, env=kboot.environ)
    wait_for(lambda: (kboot.folder / "out").read_text().endswith("}\n"), process)
    leave.write_text("")

    assert 0 == process.wait(DEADLINE_S)
    assert {"reclaim.announced", "engine.stopped"} <= set(events(kboot))


def test_a_notice_in_the_middle_of_a_fetch_ends_the_daemon_in_order(kboot: Kboot, tmp_path: Path) -> None:
    """Exit status 0, and a later boot goes on from the bytes that were there; nothing is left half-named."""
    folder = tmp_path / "slow"
    folder.mkdir()
    leave = tmp_path / "leave"
    port = free_port()
    with hub(folder, "--rate-mib-s", "0.5") as endpoint:
        kboot.env["HF_ENDPOINT"] = endpoint
        with daemon(kboot, port, f'reclaim = ["file:{leave}"]') as process:
            wait_for(lambda: 'kboot_phase_files_done{phase="fetch"} ' in get(port, "/metrics")[1], process)
            state = get(port, "/readyz")
            leave.write_text("the spot price rose")
            status = process.wait(30)

    assert (503, 0) == (state[0], status)
    assert state[1].startswith("preparing: ")
    assert ["reclaim.announced", "engine.drained"] == [e for e in events(kboot) if e.startswith(("reclaim", "engine."))]
    assert not (kboot.folder / "run/handoff.json").exists()
