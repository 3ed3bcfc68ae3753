"""1,561 GB in 111 shards: everything that reads no data takes little memory, and really reads none."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from kboot.demo import giant

# A program of its own, so that its memory is its own. It fetches nothing: it says what is there, and plans.
SURVEY = """
import hashlib, json, resource, sys
from pathlib import Path
from kboot.checkpoint import Listing, RemoteFile
from kboot.facts.checkpoint import checkpoint_facts, listing_with_residency
from kboot.facts.types import MemoryFacts
from kboot.host.paths import Paths
from kboot.plan.fetch import plan_bytes
from kboot.profile.types import WarmAsk
from kboot.store.store import Store

def read_bytes():
    return int(Path("/proc/self/io").read_text().split("rchar:")[1].split()[0])

folder, shards = Path(sys.argv[1]), Path(sys.argv[2])
paths = Paths(folder / "state", folder / "run", folder / "etc")
store = Store(paths)
files = []
for path in sorted(shards.glob("*.safetensors")):
    name = hashlib.sha256(path.name.encode()).hexdigest()
    files.append(RemoteFile(path.name, path.stat().st_size, name, name))
listing = Listing("org/giant", "main", "c" * 40, tuple(files), (), "test")
for file in files:
    blob = store.blob_path(listing.repo, file.blob_id)
    blob.parent.mkdir(parents=True, exist_ok=True)
    (shards / file.path).rename(blob)
    store.record(listing, file, store.mark(blob), "fetch", "test")
store.remember(listing)
before_bytes, before_kib = read_bytes(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
facts = listing_with_residency(checkpoint_facts(store.known_listing("org/giant", "c" * 40), store, "giant"), store)
memory = MemoryFacts(2 << 40, 2 << 40, None, 0, 0, None, None)
phases = plan_bytes(facts, "ledger", WarmAsk(), memory, "/models/giant")
print(json.dumps({
    "size": listing.size_bytes,
    "states": sorted({f.state for f in facts.files}),
    "resident": sum(f.resident_bytes or 0 for f in facts.files),
    "actions": {p.name: len(p.actions) for p in phases},
    "read_bytes": read_bytes() - before_bytes,
    "more_kib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kib,
}))
"""


@pytest.mark.slow
def test_a_checkpoint_of_1561_gb_is_surveyed_and_planned_without_reading_it(tmp_path: Path) -> None:
    """States, residency, ledger and plan of 111 shards: a few MB are read and held, whatever the files' sizes."""
    shards = tmp_path / "shards"
    giant.write(shards, 111, giant.Sizes())
    done = subprocess.run(
        [sys.executable, "-c", SURVEY, str(tmp_path), str(shards)], capture_output=True, text=True, timeout=110
    )
    assert 0 == done.returncode, done.stderr
    found = json.loads(done.stdout)

    assert 1561 == round(found["size"] / 1e9)
    assert ["verified"] == found["states"]
    assert {"fetch": 0, "verify": 0, "publish": 1, "warm": 111} == {
        name: found["actions"][name] for name in ("fetch", "verify", "publish", "warm")
    }
    assert found["read_bytes"] < 16 << 20
    assert found["more_kib"] < 32 << 10
