"""Two nodes of a fleet, each with a systemd and a network of its own, behind one origin."""

from __future__ import annotations

import hashlib
import json
import time
import urllib.request
from collections.abc import Callable, Iterator

import pytest

from fakes.box import Box, NewBox
from fakes.cluster import Cluster, why_not
from fakes.hub import COMMIT, REPO, FakeHub
from systemd.test_services import PYTHON

pytestmark = [pytest.mark.systemd, pytest.mark.slow, pytest.mark.timeout(300)]

DEADLINE_S = 120.0
BLOBS = "var/lib/kboot/hub/models--org--m/blobs"
HEADER = b"\2\0\0\0\0\0\0\0{}"
FILES = {f"model-{n}.safetensors": HEADER + bytes([n]) * (1 << 20) for n in range(16)} | {"config.json": b"{}"}
TOTAL_BYTES = sum(len(data) for data in FILES.values())
DIGEST = hashlib.sha256(b"".join(FILES[path] for path in sorted(FILES))).hexdigest()

# Answers with its rank, its head and the digest of the checkpoint as it reads it.
ENGINE = """\
import hashlib, sys
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

model, port, rank, head = sys.argv[1:]
data = b"".join(path.read_bytes() for path in sorted(Path(model).iterdir()) if path.is_file())
answer = f"rank {rank} of {head}: {hashlib.sha256(data).hexdigest()}".encode()

class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(answer)

HTTPServer(("0.0.0.0", int(port)), Handler).serve_forever()
"""


def profile(cluster: Cluster) -> str:
    return f"""\
schema = 1
checkpoint.repo = "{REPO}"
checkpoint.revision = "{COMMIT}"
cpu.governor = ""
serve.port = 8133
[[layout]]
name = "group"
gpu = "none"
gpus_per_node = 0
nodes = 2
engine = "command"
command = ["{PYTHON}", "/opt/engine.py", "{{model}}", "{{port}}", "{{node_rank}}", "{{head}}"]
[fleet]
discovery = "static"
peers = {json.dumps([cluster.address(1), cluster.address(2)])}
key_file = "/etc/kboot/fleet.key"
"""


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """Host 0 is the origin's, 1 and 2 are the nodes'."""
    if reason := why_not():
        pytest.skip(reason)
    with Cluster(3) as made:
        yield made


def node(new_box: NewBox, cluster: Cluster, host: int, hub: FakeHub) -> Box:
    """Return a box on a host's network, set up as an operator would, not booted."""
    box = new_box()
    box.network = str(cluster.namespace(host))
    box.write("/etc/kboot/kboot.toml", 'schema = 1\nprofile = "group"\n')
    box.write("/etc/kboot/profiles/group.toml", profile(cluster))
    box.write("/etc/kboot/env", f"HF_ENDPOINT={hub.url}\n")
    box.write("/etc/kboot/fleet.key", "the key of this fleet, 32 or more")
    (box.root / "etc/kboot/fleet.key").chmod(0o600)
    box.write("/opt/engine.py", ENGINE)
    for unit in ("kboot.service", "kboot-engine.service"):
        box.write(f"/etc/systemd/system/{unit}.d/quick.conf", "[Service]\nRestartSec=1s\n")
    return box


def proven(box: Box) -> int:
    """Return how many files of the checkpoint are proven, and so have their names."""
    return sum(path.suffix == "" for path in (box.root / BLOBS).glob("*"))


def begun(box: Box) -> bool:
    """Return whether a file of the checkpoint is there in part: with bytes, not with reserved room alone."""
    return any(path.stat().st_size for path in (box.root / BLOBS).glob("*.part"))


def until(wanted: Callable[[], bool], box: Box) -> None:
    """Wait for what a box's kboot does."""
    end = time.monotonic() + DEADLINE_S
    while not wanted():
        assert time.monotonic() < end, box.journal("kboot")[-4000:]
        time.sleep(0.05)


def answer(cluster: Cluster, host: int, box: Box) -> str:
    """Return what a node's engine says to who asks it over the network, once it does."""
    end = time.monotonic() + DEADLINE_S
    while True:
        try:
            with urllib.request.urlopen(f"http://{cluster.address(host)}:8133/health", timeout=10) as reply:
                return str(reply.read().decode())
        except OSError:
            if time.monotonic() > end:
                return box.journal("kboot-engine") + box.journal("kboot")[-4000:]
            time.sleep(0.1)


def both_serve(cluster: Cluster, boxes: list[Box]) -> None:
    """Wait for both services, and prove that each engine has its rank and the whole checkpoint."""
    for box in boxes:
        box.wait_until("kboot.service", DEADLINE_S, ActiveState="active")
    head = cluster.address(1)
    said = cluster.on(0, lambda: [answer(cluster, host, box) for host, box in enumerate(boxes, 1)])
    assert [f"rank 0 of {head}: {DIGEST}", f"rank 1 of {head}: {DIGEST}"] == said


def test_two_machines_fetch_once_and_start_together(cluster: Cluster, new_box: NewBox) -> None:
    """From power-on to both engines' answers, the origin gives about one copy."""
    with cluster.on(0, lambda: FakeHub(FILES, address=cluster.address(0))) as hub:
        boxes = [node(new_box, cluster, host, hub) for host in (1, 2)]
        for box in boxes:
            box.boot()
        both_serve(cluster, boxes)

        assert TOTAL_BYTES <= hub.sent_bytes < 1.5 * TOTAL_BYTES
    for box in boxes:
        met = json.loads(box.run("cat", "/run/kboot/fleet.json").stdout)
        assert met["started"]
        assert [cluster.address(1), cluster.address(2)] == [one["name"] for one in met["statements"]]


def test_a_machine_that_lost_power_fills_from_the_other(cluster: Cluster, new_box: NewBox) -> None:
    """Cut off in the middle of the fetch and booted when the origin is gone, it gets the rest and starts with it."""
    with cluster.on(0, lambda: FakeHub(FILES, address=cluster.address(0))) as hub:
        cluster.limit(0, 4)  # 0.5 MB/s: it would take half a minute, and the cut comes early in it
        first, second = boxes = [node(new_box, cluster, host, hub) for host in (1, 2)]
        for box in boxes:
            box.boot()
        until(lambda: hub.sent_bytes > TOTAL_BYTES // 16 and begun(second), second)
        second.power_off()
        assert begun(second)
        assert proven(second) < len(FILES)
        cluster.limit(0, 1000)
        until(lambda: proven(first) == len(FILES), first)
    second.boot()
    both_serve(cluster, boxes)
