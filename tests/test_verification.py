"""`kboot verify`: is what lies on this disk what the pinned commit says, and can it be mended?"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from booting import Node, profile
from cli.cli_run import hub
from kboot.apply.pace import Pace
from kboot.checkpoint import VerifyMode
from kboot.errors import SourceError
from kboot.events import Event, FileDone
from kboot.verification import VerifyReport, verify_checkpoint

SHARD = "model-00003-of-00006.safetensors"
NOBODY = "http://127.0.0.1:9"


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The demo Hub with six shards."""
    with hub(tmp_path_factory.mktemp("hub")) as url:
        yield url


@pytest.fixture
def node(tmp_path: Path, endpoint: str) -> Node:
    """A node that was booted, and whose Hub then went away."""
    node = Node(tmp_path, endpoint)
    report = node.boot()
    assert ("done", None) == (report.status, report.error)
    node.endpoint = NOBODY
    return node


def verify(node: Node, mode: VerifyMode, *, repair: bool = False, offline: bool = False) -> VerifyReport:
    """Verify the node's checkpoint."""
    return verify_checkpoint(profile(), node.host, node.paths, mode, repair, offline, node.seen.append, node.stop)


def flip(blob: Path) -> None:
    """Change the last byte and put the times back."""
    before = blob.stat()
    data = bytearray(blob.read_bytes())
    data[-1] ^= 1
    with open(blob, "r+b") as file:
        file.write(data)
    os.utime(blob, ns=(before.st_atime_ns, before.st_mtime_ns))


def failed(report: VerifyReport) -> dict[str, str]:
    """Return code by path of what is wrong."""
    return {o.title.split()[1]: o.error.code for o in report.outcomes if o.error}


@pytest.mark.parametrize("mode", ["ledger", "quick", "full"])
def test_a_good_checkpoint_passes_in_every_mode_without_network(node: Node, mode: VerifyMode) -> None:
    """Expected hashes are on this disk, from the pinned commit."""
    report = verify(node, mode)

    assert {} == failed(report)
    assert len(report.listing.files) == len(report.outcomes)


def test_each_mode_claims_what_it_did_and_no_more(node: Node) -> None:
    """ledger speaks of identity, quick of structure, full of bytes hashed now."""
    ledger, quick, full = (verify(node, mode).claim for mode in ("ledger", "quick", "full"))

    assert "unchanged since they were hashed" in ledger
    assert "hashed in this run" not in ledger
    assert "structure of" in quick
    assert "hashed in this run" in full


def test_a_changed_byte_is_reported_by_the_ledger_and_proven_by_the_hash(node: Node) -> None:
    """Same size and mtime: the ledger no longer vouches (ctime), the full pass names both hashes."""
    flip(node.blob(SHARD))

    assert {SHARD: "not-proven"} == failed(verify(node, "ledger"))
    assert {SHARD: "shard-hash-mismatch"} == failed(verify(node, "full"))


def test_a_missing_file_is_named_in_every_mode(node: Node) -> None:
    """A shard that is gone is never a success."""
    node.blob(SHARD).unlink()

    assert [{SHARD: "file-missing"}] * 3 == [failed(verify(node, mode)) for mode in ("ledger", "quick", "full")]


def test_only_a_repair_takes_a_file_from_a_copy_on_this_disk(node: Node) -> None:
    """A file that stands in the snapshot itself is missing to a verification, which changes nothing."""
    blob = node.blob(SHARD)
    link = next(node.paths.hub.glob(f"*/snapshots/*/{SHARD}"))
    link.unlink()
    blob.rename(link)

    assert [{SHARD: "file-missing"}] * 3 == [failed(verify(node, mode)) for mode in ("ledger", "quick", "full")]
    assert not blob.exists()
    assert {} == failed(verify(node, "full", repair=True, offline=True))
    assert blob.exists()


def test_a_repair_fetches_what_is_wrong_and_proves_it(node: Node, endpoint: str) -> None:
    """Afterwards nothing is wrong, and the report has no failure left."""
    flip(node.blob(SHARD))
    node.endpoint = endpoint
    repaired = verify(node, "full", repair=True)

    assert {} == failed(repaired)
    assert {} == failed(verify(node, "full"))


def test_a_repair_without_a_source_says_so_and_loses_nothing(node: Node) -> None:
    """Nobody answers: the file stays named as wrong, or the source's error is raised; the others stay proven."""
    flip(node.blob(SHARD))
    try:
        left = failed(verify(node, "full", repair=True))
    except SourceError:
        left = failed(verify(node, "full"))

    assert {SHARD} == set(left)


def test_a_file_that_was_hashed_while_the_clock_was_ahead_is_hashed_again(node: Node) -> None:
    """Else no scrub would look at it until that time has come; a scrub of what is older than an hour takes it."""
    with closing(sqlite3.connect(node.paths.ledger)) as ledger, ledger:
        ledger.execute("UPDATE file SET unix_s = unix_s + 1e9 WHERE path = ?", (SHARD,))
    report = verify_checkpoint(
        profile(), node.host, node.paths, "full", False, True, node.seen.append, node.stop, min_age_s=3600
    )

    assert [f"verify {SHARD} (full)"] == [outcome.title for outcome in report.outcomes]
    assert report.oldest_hash_unix_s is not None
    assert report.oldest_hash_unix_s < time.time() < report.oldest_hash_unix_s + 600


def test_a_scrub_begins_with_what_was_hashed_longest_ago_and_goes_on_where_it_was_stopped(node: Node) -> None:
    """Stopped after two files, the next run takes the others first; with an age given, only them."""
    done: list[str] = []

    def scrub(stop_after: int, min_age_s: float = 0.0) -> VerifyReport:
        node.stop.clear()
        done.clear()

        def emit(event: Event) -> None:
            if isinstance(event, FileDone) and event.phase == "verify":
                done.append(event.path)
                if len(done) == stop_after:
                    node.stop.set()

        pace = Pace(background=True)
        return verify_checkpoint(
            profile(), node.host, node.paths, "full", False, True, emit, node.stop, pace, min_age_s
        )

    started_unix_s = time.time()
    scrub(2)
    first = list(done)
    report = scrub(1000, time.time() - started_unix_s)
    rest = list(done)
    scrub(1)

    assert 2 == len(first)
    assert len(report.listing.files) - 2 == len(rest)
    assert set() == set(first) & set(rest)
    assert first[:1] == done
    assert {} == failed(report)
    assert report.oldest_hash_unix_s is not None
    assert started_unix_s <= report.oldest_hash_unix_s


def test_a_file_that_nobody_hashed_comes_first_and_has_no_age(node: Node) -> None:
    """The oldest proof is that of a file without any."""
    node.blob(SHARD).write_bytes(node.blob(SHARD).read_bytes())
    ledger = verify(node, "ledger")
    seen: list[str] = []
    verify_checkpoint(
        profile(), node.host, node.paths, "full", False, True,
        lambda e: seen.append(e.path) if isinstance(e, FileDone) else None, node.stop, Pace(background=True),
    )  # fmt: skip

    assert ledger.oldest_hash_unix_s is None
    assert SHARD == seen[0]


@pytest.mark.parametrize(("origin", "end"), [({}, "proves it"), ({"checkpoint.revision": "--set x"}, "same `--set`")])
def test_a_commit_that_was_never_fetched_is_told_with_what_gets_it(
    tmp_path: Path, origin: dict[str, str], end: str
) -> None:
    """The same values are only asked for where some were laid over the profile."""
    away = Node(tmp_path, NOBODY)
    with pytest.raises(SourceError) as caught:
        verify_checkpoint(
            profile(origin=origin), away.host, away.paths, "ledger", False, False, away.seen.append, away.stop
        )

    assert caught.value.hint.endswith(end)
