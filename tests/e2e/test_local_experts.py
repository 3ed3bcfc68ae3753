"""Two nodes boot for vLLM with experts spread over them: each is ready to serve from what its own ranks load."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from booting import AskedHost, profile
from fakes.fleet import bytes_asked
from fakes.hub import COMMIT, REPO, FakeHub
from fakes.peer import own_address
from fakes.sharing import layout, moe
from kboot.boot import boot
from kboot.events import Event
from kboot.host.paths import Paths
from kboot.options import BootOptions
from kboot.profile.types import CacheAsk, CheckpointAsk, FleetAsk, Profile
from kboot.report.types import BootReport

pytestmark = pytest.mark.timeout(240)  # a busy machine

DEADLINE_S = 150.0


class GpuHost(AskedHost):
    """This machine as if it had one GPU and vLLM."""

    def nvml(self, timeout_s: float) -> Mapping[str, Any]:
        """Return what a driver would say."""
        gpu = {"index": 0, "name": "NVIDIA H200", "uuid": "GPU-0", "bus_id": "00000000:1A:00.0", "cc": [9, 0]}
        memory = {"mem_total": 150 << 30, "mem_used": 0, "numa_node_id": 0, "procs": []}
        return {"nvml_init": "OK", "driver": "580.95.05", "cuda_driver": "13.0", "gpus": [{**gpu, **memory}]}


@dataclass
class Booting:
    """One node and its boot in a thread."""

    folder: Path
    hub: str
    number: int
    seen: list[Event] = field(default_factory=list)
    reports: list[BootReport] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.paths = Paths(self.folder / "state", self.folder / "run", self.folder / "etc")
        engine = self.folder / "engine"
        site = engine / f"lib/python3.{sys.version_info.minor}/site-packages/vllm-0.26.0.dist-info"
        site.mkdir(parents=True)
        (site / "METADATA").write_text("Metadata-Version: 2.1\nName: vllm\nVersion: 0.26.0\n")
        (engine / "bin").mkdir()
        (engine / "bin/python3").symlink_to(sys.executable)
        (engine / "bin/vllm").write_text(f"#!{engine}/bin/python3\n")
        (engine / "bin/vllm").chmod(0o755)
        self.key = self.folder / "fleet.key"
        self.key.write_text("the key of this fleet, 32 or more")
        self.key.chmod(0o600)

    @property
    def asked(self) -> Profile:
        fleet = FleetAsk(
            discovery="static",
            peers=(own_address(1), own_address(2)),
            bind=own_address(self.number),
            key_file=str(self.key),
            differences="warn",
            fetch="local-experts",
        )
        checkpoint = CheckpointAsk(repo=REPO, revision=COMMIT)
        return profile(checkpoint=checkpoint, layout=(layout(2),), fleet=fleet, cache=CacheAsk(enabled=False))

    def run(self) -> None:
        host = GpuHost({"HF_ENDPOINT": self.hub, "PATH": f"{self.folder}/engine/bin:/usr/bin:/bin"})
        stop = threading.Event()
        self.reports.append(boot(self.asked, host, self.paths, BootOptions(), self.seen.append, stop))


def together(nodes: list[Booting]) -> list[BootReport]:
    threads = [threading.Thread(target=node.run, daemon=True) for node in nodes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(DEADLINE_S)
    return [node.reports[-1] for node in nodes]


def test_two_nodes_boot_from_their_parts(tmp_path: Path) -> None:
    """Each hands over what its ranks load, the report says what was not proven by a hash, and again it does nothing."""
    with FakeHub(moe(2)) as hub:
        nodes = [Booting(tmp_path / f"n{n}", hub.url, n) for n in (1, 2)]
        reports = together(nodes)

        assert ["done", "done"] == [report.status for report in reports], [report.error for report in reports]
        for node, report in zip(nodes, reports, strict=True):
            assert "in 1 file proven by range digests that 127." in report.verify_claim
            assert any("fleet.fetch = local-experts" in warning for warning in report.warnings)
            record = json.loads((node.paths.runtime / "handoff.json").read_text())
            assert report.verify_claim == record["verify_claim"]
            assert str(node.paths.shares) in str((node.paths.models / "demo").resolve())
        hub.requests.clear()
        again = together(nodes)

        assert ["done", "done"] == [report.status for report in again], [report.error for report in again]
        assert 0 == bytes_asked(hub)
        assert [] == [o.title for report in again for o in report.outcomes if o.phase in ("fetch", "verify", "publish")]
