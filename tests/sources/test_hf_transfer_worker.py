import json
import subprocess
import sys
from pathlib import Path

ARGV = [sys.executable, "-m", "kboot.sources.hf_transfer_worker"]


def test_a_worker_does_not_outlive_who_asked_for_it(tmp_path: Path) -> None:
    """A worker whose parent is already gone does nothing."""
    ask = {"parent": 1, "url": "http://127.0.0.1:1/x", "path": str(tmp_path / "x"), "connections": 1, "chunk_bytes": 1}
    done = subprocess.run(ARGV, input=json.dumps(ask).encode(), capture_output=True, timeout=60)

    assert 1 == done.returncode
    assert [] == list(tmp_path.iterdir())
