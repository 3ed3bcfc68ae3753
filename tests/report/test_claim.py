"""How far a proof goes, in one sentence that never says more than was done."""

from __future__ import annotations

from report_samples import LISTING

from kboot.checkpoint import LocalFile
from kboot.report.claim import verify_claim

FILES = LISTING.files[:4]
SIZE = FILES[0].size_bytes


def test_what_was_hashed_in_this_run_and_before_is_told_apart() -> None:
    """Two of each."""
    files = [LocalFile(f, "verified", SIZE, verified_unix_s=moment) for f, moment in zip(FILES, (10, 20, 90, 95))]
    claim = verify_claim(files, 50.0, 100.0)

    assert "2 of 4 files hashed in this run; 2 of 4 files unchanged since they were hashed, the oldest " in claim
    assert "the oldest 1970-01-01 00:00:10Z" in claim


def test_what_was_hashed_while_the_clock_was_ahead_was_not_hashed_in_this_run() -> None:
    """A time that is still to come is of another run."""
    ahead = LocalFile(FILES[0], "verified", SIZE, verified_unix_s=3600.0)

    assert verify_claim([ahead], 50.0, 100.0).startswith("1 of 1 file unchanged since")


def test_a_part_is_never_called_hashed_by_its_file() -> None:
    """How much of how many files, and whose digests were believed."""
    whole = LocalFile(FILES[0], "verified", SIZE, verified_unix_s=1.0)
    parts = [
        LocalFile(f, "shared", SIZE // 2, verified_unix_s=1.0, told_by=name)
        for f, name in zip(FILES[1:3], ("gpu02", "gpu01"), strict=True)
    ]
    claim = verify_claim([whole, *parts], 0.0, 100.0)

    assert claim.startswith("1 of 3 files proven against the pinned commit; ")
    assert claim.endswith(" in 2 files proven by range digests that gpu01, gpu02 published, not by the file's own hash")


def test_a_missing_file_is_not_left_out() -> None:
    """Nothing is said of parts where there are none."""
    files = (LocalFile(FILES[0], "verified", SIZE, verified_unix_s=1.0), LocalFile(FILES[1], "absent", 0))

    assert "1 of 2 files proven against the pinned commit" == verify_claim(files, 0.0, 100.0)
