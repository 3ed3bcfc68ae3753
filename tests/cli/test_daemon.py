"""`kboot daemon`: what kboot.service runs."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest
from cli_run import Kboot, hub, wait_for

DEMO = ("--profile", "demo")


@pytest.fixture
def node(kboot: Kboot) -> Iterator[Kboot]:
    """A node whose Hub is on loopback."""
    with hub(kboot.folder) as endpoint:
        kboot.env["HF_ENDPOINT"] = endpoint
        yield kboot


def test_the_daemon_prepares_answers_and_stops(node: Kboot) -> None:
    """It prepares the node, answers `kboot status` while it watches, logs JSON lines, and ends with 0 on SIGTERM."""
    with open(node.folder / "log", "wb") as log:
        daemon = subprocess.Popen(
            [sys.executable, "-m", "kboot", "daemon", *DEMO], stdout=log, stderr=log, env=node.environ
        )
    wait_for(lambda: node("status", "--json").doc["state"] == "ready", daemon)
    text = node("status").out
    daemon.send_signal(signal.SIGTERM)

    assert 0 == daemon.wait(60)
    assert "demo: ready" in text
    assert "fetch" in text
    events = [json.loads(line)["event"] for line in (node.folder / "log").read_text().splitlines()]
    assert "file.done" in events
    assert (node.folder / "run/handoff.json").exists()


def test_a_daemon_whose_profile_is_not_valid_ends_with_its_status(kboot: Kboot) -> None:
    """What nobody but the operator can mend ends the service with the status that keeps systemd from restarting it."""
    ran = kboot("daemon", *DEMO, "--set", "serve.port=0")

    assert 10 == ran.status
    assert "serve.port" in ran.err
