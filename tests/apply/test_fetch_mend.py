"""A damaged file costs its damaged ranges, and is replaced by a whole one in one step."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
from functools import cache
from pathlib import Path
from random import Random

import pytest

from fakes.checkpoints import framed, paths_in
from fakes.fetching import ASK, Fetched, listing_of, sources_of
from fakes.hub import REPO, FakeHub, Flip, Status
from kboot.apply.fetch import fetch_files
from kboot.apply.verify import verify_files
from kboot.checkpoint import Listing, RemoteFile, VerifyMode
from kboot.events import Event, FileTrouble
from kboot.plan.types import FetchFile, VerifyFile
from kboot.report.types import Outcome
from kboot.store.store import Store
from kboot.store.verifier import RANGE_BYTES, Prefixes

SHARD = "model-00001-of-00001.safetensors"
TESTS = Path(__file__).parents[1]
MIB = 1 << 20
SIZE = 2 * RANGE_BYTES + 5 * MIB  # two whole ranges and a rest


@cache
def content() -> bytes:
    """Return a safetensors file of SIZE bytes, none of which is like the others."""
    data = SIZE - 75  # as many digits as it takes for the header to have 67 bytes
    header = f'{{"w":{{"dtype":"U8","shape":[{data}],"data_offsets":[0,{data}]}}}}'.encode()
    return framed(header.ljust(67), Random(8).randbytes(data))


@cache
def listed() -> Listing:
    return listing_of({SHARD: content()})


def shard() -> RemoteFile:
    return listed().files[0]


class Node:
    """A store with the shard in it, fetched and then damaged."""

    def __init__(self, folder: Path) -> None:
        self.store = Store(paths_in(folder))
        self.events: list[Event] = []
        self.blob = self.store.blob_path(REPO, shard().blob_id)

    def fetch(self, *urls: str) -> Fetched:
        """Fetch what the plan would: the whole file, as far as a plan knows."""
        self.events = []
        sources = sources_of(*urls)
        actions = [FetchFile(shard(), 0, "test")]
        outcomes = fetch_files(actions, listed(), sources, self.store, ASK, self.events.append, threading.Event(), 2)
        return Fetched(outcomes, self.events, self.store, listed())

    def flip(self, *offsets: int) -> None:
        """Change one byte at each offset."""
        with open(self.blob, "r+b") as file:
            for at in offsets:
                file.seek(at)
                file.write(bytes([content()[at] ^ 1]))

    def which(self) -> tuple[str, RemoteFile]:
        """Return repository and file."""
        return REPO, shard()

    def verify(self, mode: VerifyMode = "full") -> Outcome:
        """Look at it as `kboot verify` does."""
        action = VerifyFile(shard(), mode, "test")
        return verify_files([action], listed(), self.store, 1, lambda _: None, threading.Event())[0]


@pytest.fixture
def node(tmp_path: Path) -> Node:
    node = Node(tmp_path)
    with FakeHub({SHARD: content()}) as hub:
        assert [] == node.fetch(hub.url).errors
    return node


@pytest.mark.parametrize(
    ("wrong", "asked"),
    [
        ([0], ["bytes=0-16777215"]),
        ([RANGE_BYTES], ["bytes=16777216-33554431"]),
        ([SIZE - 1], ["bytes=33554432-"]),
        ([1, 2, RANGE_BYTES - 1, SIZE - 1], ["bytes=0-16777215", "bytes=33554432-"]),
    ],
)
def test_only_the_wrong_ranges_are_fetched_again(node: Node, wrong: list[int], asked: list[str]) -> None:
    """Wherever the damage is: the requests name its ranges and nothing else, and the whole is proven."""
    node.flip(*wrong)
    found = node.verify()
    with FakeHub({SHARD: content()}) as hub:
        got = node.fetch(hub.url)
        ranges = [r.range for r in hub.asked(SHARD)]

    assert found.error is not None and "the first difference is in bytes" in found.error.where[0]
    assert asked == ranges
    assert content() == node.blob.read_bytes()
    assert ["range-mismatch"] * len(asked) == got.troubles
    assert 0 < got.done[0].reused_bytes < SIZE
    assert [] == got.leftovers()
    assert "unchanged" == node.verify("ledger").status
    assert "done" == node.verify().status


def test_the_damaged_file_stays_until_a_whole_one_replaces_it(node: Node) -> None:
    """While ranges are fetched, and when they cannot be: the old file is there, byte by byte."""
    node.flip(7)
    damaged, inode = node.blob.read_bytes(), node.blob.stat().st_ino
    node.verify()
    with FakeHub({SHARD: content()}) as hub:
        hub.every_file = Status(404)
        failed = node.fetch(hub.url)
        assert damaged == node.blob.read_bytes()
        hub.every_file = None
        asked = len(hub.requests)
        mended = node.fetch(hub.url)
        ranges = [r.range for r in hub.requests[asked:]]

    assert ["file-not-found"] == failed.errors
    assert [] == mended.errors
    assert ["bytes=0-16777215"] == ranges
    assert inode != node.blob.stat().st_ino


def test_a_cut_file_costs_its_missing_end(node: Node) -> None:
    """Wrong size: what is there is used, the rest is fetched."""
    with open(node.blob, "r+b") as file:
        file.truncate(RANGE_BYTES + 3 * MIB)
    with FakeHub({SHARD: content()}) as hub:
        got = node.fetch(hub.url)
        ranges = [r.range for r in hub.asked(SHARD)]

    assert [] == got.errors
    assert [f"bytes={RANGE_BYTES + 3 * MIB}-"] == ranges
    assert content() == node.blob.read_bytes()


def test_a_source_that_lies_about_a_range_is_demoted_and_the_range_comes_from_another(node: Node) -> None:
    """The range's own digest tells at once: the liar is named, and no other byte is fetched again."""
    node.flip(3)
    node.verify()
    with FakeHub({SHARD: content()}) as liar, FakeHub({SHARD: content()}) as honest:
        liar.every_file = Flip(5)
        got = node.fetch(liar.url, honest.url)
        asked = [r.range for hub in (liar, honest) for r in hub.asked(SHARD)]

    assert [] == got.errors
    assert ["bytes=0-16777215"] * 2 == asked
    assert ["source.demoted"] == got.notices
    assert content() == node.blob.read_bytes()


def test_wrong_digests_of_ranges_cost_time_and_nothing_else(node: Node) -> None:
    """A ledger that remembers them wrong: in doubt the SHA-256 of the whole decides."""
    node.store.ledger.keep_prefixes(shard().blob_id, Prefixes(RANGE_BYTES, (bytes(32), bytes(32))))
    node.flip(3)
    node.verify()
    with FakeHub({SHARD: content()}) as hub:
        got = node.fetch(hub.url)

    assert [] == got.errors
    assert content() == node.blob.read_bytes()
    assert {"range-mismatch"} == {e.code for e in got.events if isinstance(e, FileTrouble)}


def test_a_file_that_came_from_elsewhere_is_mended_the_same_way(tmp_path: Path) -> None:
    """Hashed once by kboot, wherever it came from: that is when its ranges become known."""
    node = Node(tmp_path)
    node.blob.parent.mkdir(parents=True)
    node.blob.write_bytes(content())
    assert "done" == node.verify().status
    node.flip(SIZE - 1)
    node.verify()
    with FakeHub({SHARD: content()}) as hub:
        node.fetch(hub.url)
        ranges = [r.range for r in hub.asked(SHARD)]

    assert [f"bytes={2 * RANGE_BYTES}-"] == ranges
    assert content() == node.blob.read_bytes()


VERIFY_AND_MEND = """
import json, sys
from pathlib import Path
from apply.test_fetch_mend import Node, SHARD
node = Node(Path(sys.argv[1]))
found = node.verify()
got = node.fetch(sys.argv[2])
print(json.dumps([found.error and found.error.code, node.store.look(*node.which()).state, got.errors]))
"""


@pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed")
def test_a_bad_sector_costs_its_range(node: Node, tmp_path: Path) -> None:
    """The disk answers EIO in the middle of a shard: it is damaged, what can be read is kept, the rest is fetched."""
    source, library = TESTS / "fakes/badsector/badsector.c", tmp_path / "badsector.so"
    subprocess.run(["gcc", "-O1", "-Wall", "-Werror", "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
    node.store.ledger.close()
    env = {
        **os.environ,
        "LD_PRELOAD": str(library),
        "BAD_INODE": str(node.blob.stat().st_ino),
        "BAD_OFFSET": str(RANGE_BYTES + 5 * MIB),
        "PYTHONPATH": os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")]),
    }
    # Open for writing: it is read and not mapped, as where pages are missing because the disk cannot give them.
    with open(node.blob, "r+b"), FakeHub({SHARD: content()}) as hub:
        argv = [sys.executable, "-c", VERIFY_AND_MEND, str(tmp_path), hub.url]
        done = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=100)
        ranges = [r.range for r in hub.asked(SHARD)]

    assert ["file-unreadable", "verified", []] == json.loads(done.stdout or "null"), done.stderr
    assert [f"bytes={RANGE_BYTES}-{2 * RANGE_BYTES - 1}"] == ranges
    assert content() == node.blob.read_bytes()
