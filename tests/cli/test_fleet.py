"""Every node of a fleet is asked, and shown with what it says."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from cli_run import Kboot

from kboot.apply.fleet_state import STATE_TARGET, FleetState
from kboot.apply.peer_server import PeerServer
from kboot.facts.fleet_types import NodeStatement
from kboot.sources.fleet_auth import FleetKey, read_key

PROFILE = """\
schema = 1
checkpoint.repo = "org/small"
[[layout]]
name = "a"
gpu = "none"
gpus_per_node = 0
engine = "demo"
nodes = {nodes}
[fleet]
discovery = "static"
peers = {peers}
port = {port}
bind = "127.0.1.1"
key_file = "{key}"
"""


class Fleet:
    """Agents that answer on addresses of their own, and a profile that names them."""

    def __init__(self, folder: Path, number: int) -> None:
        self.key_file = folder / "fleet.key"
        self.key_file.write_text("s" * 64)
        self.key_file.chmod(0o600)
        self.nodes = [Agent(n, read_key(self.key_file)) for n in range(number)]
        for node in self.nodes:
            node.state.name = node.name
            node.state.change(name=node.name)

    def write(self, folder: Path) -> None:
        (folder / "etc/profiles").mkdir(exist_ok=True)
        text = PROFILE.format(
            nodes=len(self.nodes),
            peers=[f"{node.name}:{node.server.port}" for node in self.nodes],
            port=self.nodes[0].server.port,
            key=self.key_file,
        )
        (folder / "etc/profiles/small.toml").write_text(text.replace("'", '"'))

    def close(self) -> None:
        for node in self.nodes:
            node.server.close()


@dataclass
class Agent:
    number: int
    key: FleetKey

    def __post_init__(self) -> None:
        self.state = FleetState("")
        address = f"127.0.1.{self.number + 1}"
        self.server = PeerServer(address, 0, self.key, {STATE_TARGET: self.state.page}, lambda _: None)
        self.name = address

    def states(self, driver: str, **values: Any) -> None:
        self.state.change(
            commit="c0ffee" * 6 + "c0ff", statement=NodeStatement(self.name, {"driver": driver}), **values
        )


@pytest.fixture
def fleet(kboot: Kboot, tmp_path: Path) -> Iterator[Fleet]:
    made = Fleet(tmp_path, 3)
    made.write(kboot.folder)
    yield made
    made.close()


def test_every_node_is_shown_on_a_line(kboot: Kboot, fleet: Fleet) -> None:
    """Stage, commit, bytes and verdict, within 80 columns; a node that does not answer says why."""
    fleet.nodes[0].states("580", stage="started", have_bytes=3 * 10**9, total_bytes=3 * 10**9)
    fleet.nodes[1].states("580", stage="preparing", phase="fetch", have_bytes=10**9, total_bytes=3 * 10**9)
    fleet.nodes[2].server.close()
    ran = kboot("fleet", "status", "--profile", "small")

    assert 3 == ran.status, ran.err
    lines = [" ".join(line.split()) for line in ran.out.splitlines()]
    assert "small: 3 nodes of fleet.peers; this is rank 0" == lines[0]
    assert f"0 {fleet.nodes[0].name} started c0ffeec0ffee 3.00 GB of 3.00 GB agrees" in lines
    assert any(line.startswith(f"1 {fleet.nodes[1].name} fetch c0ffeec0ffee 1.00 GB of 3.00 GB") for line in lines)
    assert any(line.startswith(f"2 {fleet.nodes[2].name} - -") for line in lines)
    assert "refuses connections" in " ".join(lines)
    assert 80 >= max(len(line) for line in ran.out.splitlines())


def test_the_odd_node_is_named(kboot: Kboot, fleet: Fleet) -> None:
    """In words for people, with every value for programs."""
    for node, driver in zip(fleet.nodes, ("580", "580", "570"), strict=True):
        node.states(driver, stage="ready")
    ran, doc = kboot("fleet", "status", "--profile", "small"), kboot("fleet", "status", "--profile=small", "--json").doc

    assert 3 == ran.status
    assert f"differs driver: {fleet.nodes[2].name} has 570, the others have 580" in " ".join(ran.out.split())
    assert ("fleet", False, 0) == (doc["kind"], doc["whole"], doc["me"])
    assert {fleet.nodes[2].name: "570"} == doc["differences"][0]["values"]
    assert ["agrees", "agrees", "differs: driver"] == [node["verdict"] for node in doc["nodes"]]


def test_a_whole_fleet_is_a_success(kboot: Kboot, fleet: Fleet) -> None:
    """Everybody answers and says the same; who waits for that comes back at once."""
    for node in fleet.nodes:
        node.states("580", stage="started")

    assert 0 == kboot("fleet", "status", "--profile", "small").status
    assert 0 == kboot("fleet", "wait", "--profile", "small", "--timeout", "60").status


def test_waiting_ends_with_whom_it_waited_for(kboot: Kboot, fleet: Fleet) -> None:
    """Each node that is behind, with its stage."""
    fleet.nodes[0].states("580", stage="started")
    fleet.nodes[1].states("580", stage="accepted")
    fleet.nodes[2].states("580", stage="failed", why="the disk is full")
    started = kboot("fleet", "wait", "--profile", "small", "--timeout", "0", "--json")
    ready = kboot("fleet", "wait", "--profile", "small", "--timeout", "0", "--stage", "ready", "--json")

    assert (14, "fleet-not-together") == (started.status, started.doc["code"])
    assert [f"{fleet.nodes[1].name}: accepted, agrees", f"{fleet.nodes[2].name}: failed, the disk is full"] == (
        started.doc["where"]
    )
    assert "1 of 3 nodes were not ready after 0 s" == ready.doc["message"]


def test_help_tells_how_long_is_waited(kboot: Kboot) -> None:
    """A number in its unit, as it is typed."""
    assert "Seconds to wait at most. [default: 600]" in " ".join(kboot("fleet", "wait", "--help").out.split())


def test_what_is_needed_to_ask_is_said(kboot: Kboot, fleet: Fleet) -> None:
    """A profile with a fleet, a key that is a secret, a machine with a network, nodes that can be found."""
    alone = kboot("fleet", "status", "--profile", "demo", "--json")
    recorded = kboot("fleet", "status", "--profile", "small", "--root", str(kboot.folder), "--json")
    unknown = kboot("fleet", "status", "--profile=small", "--set", "fleet.discovery=slurm", "--json")
    fleet.key_file.chmod(0o644)
    exposed = kboot("fleet", "status", "--profile", "small", "--json")

    assert (2, "no-fleet") == (alone.status, alone.doc["code"])
    assert 10 == recorded.status  # no profile of that name lies below that root
    assert (11, "fleet-unknown") == (unknown.status, unknown.doc["code"])
    assert (13, "fleet-key-not-usable") == (exposed.status, exposed.doc["code"])


def test_facts_show_the_fleet(kboot: Kboot, fleet: Fleet) -> None:
    """`kboot facts` names the nodes that the profile finds, and which of them this is."""
    text = " ".join(kboot("facts", "--profile", "small", "-v").out.split())

    assert f"fleet 3 nodes of fleet.peers; this is rank 0 ({fleet.nodes[0].name})" in text
    assert 3 == len(kboot("facts", "--profile", "small", "--json").doc["fleet"]["nodes"])
