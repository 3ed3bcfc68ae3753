"""The worker process of hf_xet; what it brings is tested with the fetch."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from fakes.hub import COMMIT, REPO, FakeHub

ARGV = [sys.executable, "-m", "kboot.sources.hf_xet_worker"]
ASK = {"endpoint": "http://127.0.0.1:1", "token": "", "repo": REPO, "commit": COMMIT, "file": "a", "size_bytes": 1}


def test_a_worker_does_not_outlive_who_asked_for_it(tmp_path: Path) -> None:
    """A worker whose parent is already gone does nothing."""
    ask = {**ASK, "parent": 1, "path": str(tmp_path / "x")}
    done = subprocess.run(ARGV, input=json.dumps(ask).encode(), capture_output=True, timeout=60)

    assert 1 == done.returncode
    assert [] == list(tmp_path.iterdir())


@pytest.mark.parametrize(("path", "says"), [("a.safetensors", "keeps it elsewhere"), ("b.safetensors", "404")])
def test_why_it_brings_nothing_is_one_line(tmp_path: Path, path: str, says: str) -> None:
    """A file that is in no such store, or not there at all."""
    with FakeHub({"a.safetensors": b"x" * 1000}) as hub:
        code = "import json, os, sys, subprocess; ask = json.load(sys.stdin) | {'parent': os.getpid()}; sys.exit("
        code += f"subprocess.run({ARGV!r}, input=json.dumps(ask).encode()).returncode)"
        ask = {**ASK, "endpoint": hub.url, "file": path, "path": str(tmp_path / "x")}
        done = subprocess.run([sys.executable, "-c", code], input=json.dumps(ask).encode(), capture_output=True)

    assert 1 == done.returncode
    assert says in done.stderr.decode().splitlines()[-1]
