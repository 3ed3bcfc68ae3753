"""Agents of a fleet as processes of their own, each on an address of its own: together, or not at all."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cli.cli_run import Kboot, hub, wait_for

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]  # several interpreters start, on a busy machine too

PROFILE = """\
schema = 1
checkpoint.repo = "kboot/demo-moe"
[cpu]
governor = ""
[[layout]]
name = "group"
gpu = "none"
gpus_per_node = 0
nodes = {nodes}
engine = "command"
command = ["{python}", "-c", "print({{node_rank}})"]
[fleet]
discovery = "static"
peers = {peers}
bind = "{bind}"
key_file = "{key}"
start_timeout_s = {timeout_s}
"""


class Fleet:
    """Nodes with folders of their own and a common key; each boots as a process."""

    def __init__(self, folder: Path, endpoint: str, number: int) -> None:
        self.folder, self.endpoint = folder, endpoint
        self.addresses = [f"127.{os.getpid() // 256 % 256}.{os.getpid() % 256}.{n + 2}" for n in range(number)]
        self.kboots: dict[int, Kboot] = {}
        self.running: list[subprocess.Popen[str]] = []

    def boot(
        self, number: int, *, timeout_s: float = 90.0, endpoint: str = "", key: str = "s" * 64
    ) -> subprocess.Popen[str]:
        folder = self.folder / f"node{number}"
        folder.mkdir()
        self.kboots[number] = Kboot(folder, {"HF_ENDPOINT": endpoint or self.endpoint})
        (folder / "fleet.key").write_text(key)
        (folder / "fleet.key").chmod(0o600)
        profiles = folder / "etc/profiles"
        profiles.mkdir()
        text = PROFILE.format(
            nodes=len(self.addresses),
            python=sys.executable,
            peers=json.dumps(self.addresses),
            bind=self.addresses[number],
            key=folder / "fleet.key",
            timeout_s=timeout_s,
        )
        (profiles / "group.toml").write_text(text)
        return self.boot_again(number)

    def boot_again(self, number: int) -> subprocess.Popen[str]:
        argv = [sys.executable, "-m", "kboot", "boot", "--profile", "group", "--json"]
        kboot = self.kboots[number]
        with open(kboot.folder / "err", "wb") as err:
            process = subprocess.Popen(argv, env=kboot.environ, stdout=subprocess.PIPE, stderr=err, text=True)
        self.running.append(process)
        return process

    def log(self, number: int) -> str:
        return (self.folder / f"node{number}" / "err").read_text()

    def close(self) -> None:
        for process in self.running:
            process.kill()
            process.wait(60)


def end(process: subprocess.Popen[str]) -> tuple[int, dict[str, Any]]:
    """Return how a boot ended: its status and its document."""
    out, _ = process.communicate(timeout=300)
    return process.returncode, json.loads(out)


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with hub(tmp_path_factory.mktemp("hub")) as url:
        yield url


@pytest.fixture
def fleet(tmp_path: Path, endpoint: str) -> Iterator[Fleet]:
    made = Fleet(tmp_path, endpoint, 3)
    yield made
    made.close()


def test_three_agents_start_together(fleet: Fleet) -> None:
    """Each is prepared, meets the others and knows what they stated."""
    ends = [end(process) for process in [fleet.boot(n) for n in range(3)]]

    assert [0, 0, 0] == [status for status, _ in ends], [fleet.log(n) for n in range(3)]
    assert all("meet" in [span["name"] for span in doc["spans"]] for _, doc in ends)
    for n in range(3):
        record = json.loads((fleet.folder / f"node{n}/run/fleet.json").read_text())
        assert record["started"]
        assert fleet.addresses == [statement["name"] for statement in record["statements"]]
        handoff = json.loads((fleet.folder / f"node{n}/run/handoff.json").read_text())
        assert f"print({n})" in handoff["argv"]
    assert 0 == end(fleet.boot_again(1))[0]
    assert "fleet.already_started" in fleet.log(1), "a node that only looks again waits for nobody"


def test_an_agent_with_another_commit_keeps_all_back(fleet: Fleet, tmp_path: Path) -> None:
    """It is named on every node, with the commit that it has."""
    with hub(tmp_path, "--shards", "5") as other:
        ends = [end(process) for process in [fleet.boot(0), fleet.boot(1, endpoint=other), fleet.boot(2)]]

    assert [13, 13, 13] == [status for status, _ in ends], [fleet.log(n) for n in range(3)]
    assert {"fleet-disagrees"} == {doc["error"]["code"] for _, doc in ends}
    said = f"commit: {fleet.addresses[1]} has {ends[1][1]['commit']}, the others have {ends[0][1]['commit']}"
    assert all(said in " ".join([doc["error"]["message"], *doc["error"]["where"]]) for _, doc in ends)


def test_an_agent_that_dies_before_the_start_is_named(fleet: Fleet) -> None:
    """The others end in bounded time, and say who is missing."""
    first = fleet.boot(1)
    wait_for(lambda: "meet" in fleet.log(1), first)
    first.kill()
    first.wait(60)
    status, doc = end(fleet.boot(0, timeout_s=3.0))

    assert (14, "fleet-not-together") == (status, doc["error"]["code"])
    assert fleet.addresses[1] in " ".join([doc["error"]["message"], *doc["error"]["where"]])


def test_an_agent_with_another_key_is_left_alone(fleet: Fleet) -> None:
    """The head does not start with it, and says that their keys differ; both logs do."""
    stranger = fleet.boot(1, key="x" * 64)
    wait_for(lambda: "meet" in fleet.log(1), stranger)
    status, doc = end(fleet.boot(0, timeout_s=3.0))

    assert (14, "fleet-not-together") == (status, doc["error"]["code"])
    assert "other-key" in " ".join([doc["error"]["message"], *doc["error"]["where"]])
    assert "peer.turned_away" in fleet.log(1)
