"""What the ledger says of files that the kernel proves, against what the kernel says now."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from fakes.checkpoints import remote
from kboot.checkpoint import LocalFile
from kboot.store.enforced import enforced_by, with_proof
from kboot.store.ledger import Row
from kboot.store.marks import Mark

ROW = Row("org/m", "b", "c", "a.safetensors", "", Mark("", "1", "1", 3, 1, 1), "full", 1.0, "this disk")
LOCAL = LocalFile(remote("a.safetensors", b"abc"), "verified", 3, 1.0)


def test_a_digest_that_went_away_takes_the_proof_with_it(tmp_path: Path) -> None:
    """The same identity without the digest is another disk's trick: the bytes are hashed again."""
    (tmp_path / "a").write_bytes(b"abc")
    found = with_proof(LOCAL, replace(ROW, detail="fs-verity sha256:00"), tmp_path / "a")

    assert ("present", None, False) == (found.state, found.verified_unix_s, found.enforced)
    assert "fs-verity" in found.why


def test_files_without_a_digest_are_judged_as_ever(tmp_path: Path) -> None:
    """Nothing is said of them, and nothing is asked of those that are not proven."""
    (tmp_path / "a").write_bytes(b"abc")
    gone = replace(LOCAL, state="absent")

    assert "" == enforced_by(tmp_path / "a") == enforced_by(tmp_path / "gone")
    assert [LOCAL, LOCAL, gone] == [
        with_proof(f, r, tmp_path / "a") for f, r in ((LOCAL, ROW), (LOCAL, None), (gone, ROW))
    ]
