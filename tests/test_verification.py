"""`kboot verify`: is what lies on this disk what the pinned commit says, and can it be mended?"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from booting import Node, profile
from cli.cli_run import hub
from kboot.checkpoint import VerifyMode
from kboot.errors import SourceError
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
