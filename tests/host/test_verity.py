"""Does the file system prove a file by itself? Where it cannot, that is an answer and no fault."""

from __future__ import annotations

from pathlib import Path

import pytest

from kboot.host.verity import enable, measure


def test_a_file_of_no_proof_has_no_digest(tmp_path: Path) -> None:
    """Written just now, nobody asked the file system to prove it; asking changes nothing."""
    (tmp_path / "a").write_bytes(b"content")

    assert None is measure(tmp_path / "a")
    assert b"content" == (tmp_path / "a").read_bytes()


def test_what_is_enabled_has_a_digest_and_what_cannot_be_has_none(tmp_path: Path) -> None:
    """Both say the same of this file system."""
    (tmp_path / "a").write_bytes(b"content")
    can = enable(tmp_path / "a")
    digest = measure(tmp_path / "a")

    assert can is (digest is not None)
    assert can is enable(tmp_path / "a")
    assert b"content" == (tmp_path / "a").read_bytes()


def test_a_file_in_memory_has_none() -> None:
    """procfs has no such question."""
    assert None is measure(Path("/proc/self/status"))


def test_a_file_that_is_gone_is_an_error(tmp_path: Path) -> None:
    """Nothing is not a file without a digest."""
    with pytest.raises(OSError):
        measure(tmp_path / "absent")
