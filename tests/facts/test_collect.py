"""How long does the reading of a node wait for its GPU driver?"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from kboot.facts.collect import NvmlAsk, collect
from kboot.host.paths import Paths
from kboot.host.recorded import RecordedHost

PATIENCE_S = 60.0


class HungDriver(RecordedHost):
    """Its driver is given up once somebody said that it does not answer."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.given_up, self.asked_s = Event(), list[float]()

    def nvml(self, timeout_s: float) -> Mapping[str, Any]:
        """Answer as a child that was killed does."""
        self.asked_s.append(timeout_s)
        assert self.given_up.wait(PATIENCE_S)
        return {"nvml_init": "TIMEOUT"}


def test_a_driver_is_given_time_to_wake_every_gpu() -> None:
    """3-4 s for each on the bus without a persistence daemon; a caller's own limit holds."""
    assert (10, 50, 90) == tuple(NvmlAsk().timeout_s(gpus) for gpus in (0, 8, 16))
    assert 120 == NvmlAsk().timeout_s(64)
    assert 8 == NvmlAsk(limit_s=8).timeout_s(8)


def test_a_driver_that_does_not_answer_is_said_while_it_is_waited_for(tmp_path: Path) -> None:
    """Once, with what it is given; then the node is read without it."""
    host, said = HungDriver(tmp_path), list[str]()

    def say(text: str) -> None:
        said.append(text)
        host.given_up.set()

    facts = collect(host, Paths(tmp_path, tmp_path, tmp_path), ask=NvmlAsk(say=say, say_after_s=0))

    assert ["the GPU driver has not answered for 0 s; it is given 10 s in all"] == said
    assert ([10], "hung") == (host.asked_s, facts.gpu.nvml)


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("proc/meminfo", "MemTotal:       {} kB"),
        ("proc/meminfo", "MemTotal:       7 kB\nHugePages_Total:     {}"),
        ("proc/self/limits", "Max open files            {}  {}  files"),
        ("proc/sys/kernel/numa_balancing", "{}"),
        ("proc/self/mountinfo", "31 24 0:27 / /dev/shm rw - tmpfs tmpfs rw,size={}k"),
        ("disk_space.json", '{{"/": {{"total": 1e999, "free": 1, "inodes": 1}}}}'),
        ("nvml.json", '{{"nvml_init": "OK", "gpus": [{{"index": 0, "cc": "{}.0"}}]}}'),
    ],
)
def test_a_number_that_python_does_not_read_is_no_number(tmp_path: Path, path: str, text: str) -> None:
    """5,000 digits in a recorded tree: nothing is known by them, and the rest is."""
    (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / path).write_text(text.format(*["9" * 5000] * 2) + "\n")
    cgroup = tmp_path / "sys/fs/cgroup/cpuset.cpus.effective"
    cgroup.parent.mkdir(parents=True)
    cgroup.write_text("0-3\n")
    facts = collect(RecordedHost(tmp_path), Paths(tmp_path, tmp_path, tmp_path))

    assert not facts.memory.total_bytes or facts.memory.total_bytes == 7168
