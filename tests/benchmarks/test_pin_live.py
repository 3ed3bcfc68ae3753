"""The script that pins live workers on a GPU node runs here as well, where titles tell the workers apart."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from nodes.plugin import facts_of

SCRIPT = Path(__file__).parents[2] / "benchmarks/gpu/pin_live.py"


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs a CPU for each worker")
def test_it_pins_what_it_starts_and_records_the_node(tmp_path: Path) -> None:
    """Every worker is the right process on its CPUs, and the recorded tree gives the same facts again."""
    words = [sys.executable, str(SCRIPT), "--out", str(tmp_path), "--threads", "5"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=100)
    assert 0 == done.returncode, done.stderr
    found = json.loads((tmp_path / "pins.json").read_text())
    with tarfile.open(tmp_path / "node.tar.gz") as archive:
        archive.extractall(tmp_path, filter="data")
    again = facts_of(tmp_path / "node")

    assert all((*found["right_process"], *found["as_planned"]))
    assert [5] * len(found["workers"]) == [worker["tasks"] for worker in found["workers"]]
    assert found["facts"]["cpu"]["online"] == list(again.cpu.online)
    assert "node-1" == again.os.hostname
