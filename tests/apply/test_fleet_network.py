"""A fleet on a network of its own: every node a process on a host, behind an origin with a limited line.

What counts is how many bytes the origin sent; how long it took depends on the machine and is not looked at.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random

import pytest

from fakes.checkpoints import fetch_all, framed, paths_in
from fakes.cluster import Cluster, why_not
from fakes.fetching import listing_of
from fakes.fleet import LyingBoard
from fakes.hub import COMMIT, REPO, FakeHub, Status
from kboot.apply.peer_board import Board
from kboot.apply.peer_server import PeerServer
from kboot.sources.fleet_auth import read_key
from kboot.store.store import Store

_WHY_NOT = why_not()
pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(_WHY_NOT), reason=_WHY_NOT)]

MIB = 1 << 20
SHARDS = 16
SHARD_BYTES = 4 * MIB
COPY_BYTES = SHARDS * SHARD_BYTES
DEADLINE_S = 100.0


def shard(seed: int) -> bytes:
    data = SHARD_BYTES - 75
    header = f'{{"w":{{"dtype":"U8","shape":[{data}],"data_offsets":[0,{data}]}}}}'.encode()
    return framed(header.ljust(67), Random(seed).randbytes(data))


@cache
def contents() -> dict[str, bytes]:
    return {f"model-{n:05d}-of-{SHARDS:05d}.safetensors": shard(n) for n in range(SHARDS)} | {"config.json": b"{}"}


@dataclass
class Fleet:
    """Hosts 1 to `count` are nodes, host 0 is the origin."""

    cluster: Cluster
    hub: FakeHub
    folder: Path
    count: int

    def start(self, *numbers: int) -> list[subprocess.Popen[str]]:
        """Let nodes fetch, which begin together however long each takes to start."""
        self.hub.wait_for_clients = len(numbers)
        return [self._start(number) for number in numbers]

    def _start(self, number: int) -> subprocess.Popen[str]:
        node = self.folder / f"n{number}"
        profiles = node / "etc" / "profiles"
        profiles.mkdir(parents=True, exist_ok=True)
        (profiles / "fleet.toml").write_text(self._profile())
        env = {
            "PATH": os.environ["PATH"],
            "HF_ENDPOINT": self.hub.url,
            "HOME": str(node),
            "KBOOT_STATE_DIR": str(node / "state"),
            "KBOOT_RUNTIME_DIR": str(node / "run"),
            "KBOOT_CONFIG_DIR": str(node / "etc"),
        }
        argv = [sys.executable, "-m", "kboot", "fetch", "--profile", "fleet", "--json"]
        return self.cluster.start(number, argv, env)

    @property
    def key(self) -> Path:
        key = self.folder / "fleet.key"
        if not key.exists():
            key.write_text("the key of this fleet, 32 or more")
            key.chmod(0o600)
        return key

    def _profile(self) -> str:
        peers = ", ".join(f'"{self.cluster.address(number)}"' for number in range(1, self.count + 1))
        return f"""schema = 1
[checkpoint]
repo = "{REPO}"
revision = "{COMMIT}"
[fetch]
stall_timeout_s = 5.0
[fleet]
discovery = "static"
peers = [{peers}]
key_file = "{self.key}"
[[layout]]
name = "any"
gpu = "none"
gpus_per_node = 0
engine = "command"
command = ["/bin/true"]
"""

    @contextmanager
    def serving(self, number: int, board: type[Board]) -> Iterator[None]:
        """Let a node answer that has every file, and gives what a kind of board gives."""
        store, listing = Store(paths_in(self.folder / f"n{number}")), listing_of(contents())
        fetch_all(store, listing, contents())
        key, address = read_key(self.key), self.cluster.address(number)
        server = self.cluster.on(number, lambda: PeerServer(address, 7417, key, {}, lambda _event: None))
        server.offer(board(listing, store))
        try:
            yield
        finally:
            server.close()

    def blobs(self, number: int) -> set[bytes]:
        """Return the contents that a node has under their final names."""
        folder = self.folder / f"n{number}/state/hub/models--org--m/blobs"
        return {path.read_bytes() for path in folder.iterdir() if path.suffix == ""}

    def whole(self, *numbers: int) -> bool:
        """Return whether nodes have every file."""
        return all(set(contents().values()) <= self.blobs(number) for number in numbers)

    def wait_until_whole(self, *numbers: int) -> None:
        """Wait until nodes have every file."""
        deadline = time.monotonic() + DEADLINE_S
        while not self.whole(*numbers):
            assert time.monotonic() < deadline, f"nodes {numbers} are not done"
            time.sleep(0.2)

    def wait_until_sent(self, size_bytes: int) -> None:
        """Wait until the origin has sent so much."""
        deadline = time.monotonic() + DEADLINE_S
        while self.hub.sent_bytes < size_bytes:
            assert time.monotonic() < deadline, f"the origin sent {self.hub.sent_bytes} bytes"
            time.sleep(0.02)


def done(processes: list[subprocess.Popen[str]]) -> list[dict[str, object]]:
    """Return the reports of fetches, which all succeeded."""
    reports = []
    for process in processes:
        out, err = process.communicate(timeout=DEADLINE_S)
        assert process.returncode == 0, f"{err[-3000:]}\n{out[-2000:]}"
        reports.append(json.loads(out))
    return reports


@pytest.fixture
def fleet(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Fleet]:
    """So many nodes as the test asks for, behind an origin that sends 100 Mbit/s to all of them together."""
    count = request.param
    with Cluster(count + 1) as cluster, cluster.on(0, lambda: FakeHub(contents(), address=cluster.address(0))) as hub:
        cluster.limit(0, 100)
        yield Fleet(cluster, hub, tmp_path, count)
        print(f"{hub.sent_bytes / COPY_BYTES:.3f} copies")


@pytest.mark.parametrize("fleet", [3, 8], indirect=True)
def test_a_fleet_takes_one_copy_from_its_origin(fleet: Fleet) -> None:
    """All nodes end with every file; the origin sent at most 1.1 copies."""
    done(fleet.start(*range(1, fleet.count + 1)))

    assert fleet.whole(*range(1, fleet.count + 1))
    assert 1.1 * COPY_BYTES >= fleet.hub.sent_bytes


@pytest.mark.parametrize("fleet", [4], indirect=True)
def test_a_node_that_dies_is_not_waited_for(fleet: Fleet) -> None:
    """Killed half way: the others share what it had not given on yet, and nothing else comes twice."""
    nodes = fleet.start(1, 2, 3, 4)
    fleet.wait_until_sent(COPY_BYTES // 2)
    os.killpg(nodes[3].pid, 9)
    done(nodes[:3])

    assert fleet.whole(1, 2, 3)
    assert 1.34 * COPY_BYTES >= fleet.hub.sent_bytes  # its quarter at most, and what was on its way


@pytest.mark.parametrize("fleet", [3], indirect=True)
def test_a_node_that_is_started_again_goes_on(fleet: Fleet) -> None:
    """Killed half way and started at once: what it had stays, and what it had from the origin it gives on."""
    nodes = fleet.start(1, 2, 3)
    fleet.wait_until_sent(COPY_BYTES // 2)
    os.killpg(nodes[2].pid, 9)
    nodes[2].communicate(timeout=DEADLINE_S)
    again = fleet.start(3)
    done([*nodes[:2], *again])

    assert fleet.whole(1, 2, 3)
    assert 1.34 * COPY_BYTES >= fleet.hub.sent_bytes  # its third at most


@pytest.mark.parametrize("fleet", [4], indirect=True)
def test_a_node_on_a_slow_line_holds_nobody_up(fleet: Fleet) -> None:
    """The others help with its part; it gets everything in the end, and the origin is not asked for more."""
    fleet.cluster.limit(4, 60)
    done(fleet.start(1, 2, 3, 4))

    assert fleet.whole(1, 2, 3, 4)
    assert 1.1 * COPY_BYTES >= fleet.hub.sent_bytes


@pytest.mark.parametrize("fleet", [4], indirect=True)
def test_a_node_that_was_cut_off_comes_back(fleet: Fleet) -> None:
    """Its cable is pulled half way and plugged in when the others are done: it takes the rest from them."""
    nodes = fleet.start(1, 2, 3, 4)
    fleet.wait_until_sent(COPY_BYTES // 2)
    fleet.cluster.cut(4)
    fleet.wait_until_whole(1, 2, 3)
    fleet.cluster.join(4)
    done(nodes)

    assert fleet.whole(1, 2, 3, 4)
    assert 1.5 * COPY_BYTES >= fleet.hub.sent_bytes  # its quarter once more, by the others and by itself


@pytest.mark.parametrize("fleet", [3], indirect=True)
def test_one_copy_is_enough(fleet: Fleet) -> None:
    """The origin gives no file: those who come late have them from the node that has been served before."""
    with fleet.serving(1, Board):
        fleet.hub.every_file = Status(503)
        done(fleet.start(2, 3))

    assert fleet.whole(2, 3)
    assert 0 == fleet.hub.sent_bytes


@pytest.mark.parametrize("fleet", [4], indirect=True)
def test_a_node_that_lies_is_found_out(fleet: Fleet) -> None:
    """It claims to have everything and gives other bytes: nobody keeps one of them, and every node names it."""
    with fleet.serving(4, LyingBoard):
        nodes = fleet.start(1, 2, 3)
        said = [process.communicate(timeout=DEADLINE_S)[1] for process in nodes]

    assert [0, 0, 0] == [process.returncode for process in nodes]
    assert fleet.whole(1, 2, 3)
    assert all("delivered wrong bytes" in text for text in said)
    # One copy; and for each node one file that is compared with the origin, and pieces that were on their way.
    assert COPY_BYTES + 3 * SHARD_BYTES + 16 * MIB >= fleet.hub.sent_bytes
