"""How does a verification read?"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from report_samples import LISTING, T0, failed_boot, shard

from kboot.errors import ActionFailed
from kboot.report.text_verify import verify_document, verify_text
from kboot.report.types import Outcome

Golden = Callable[[str, str], None]
GOOD = Outcome("verify", f"verify {shard(1)} (full)", "asked", "done", T0, 2.0, size_bytes=14 * 10**9)
BAD = Outcome("verify", f"verify {shard(3)} (full)", "asked", "failed", T0, 1.0, error=failed_boot().error)


def test_a_file_that_is_wrong_is_named_with_its_reason_and_hint(golden: Golden) -> None:
    """The claim, what was read and how fast, then each wrong file."""
    golden("verify-failed.txt", verify_text("110 of 111 files are proven", [GOOD, BAD], LISTING))


def test_a_good_checkpoint_is_verified_as_far_as_the_claim_says() -> None:
    """The verdict is one word; how far it goes is the claim's to say; -v lists the files."""
    text = verify_text("111 of 111 files hashed in this run", [GOOD], LISTING, verbose=True)

    assert "moonshotai/Kimi-K3.1-Pro at 4b1c7e90d2f3: verified" == text.splitlines()[0]
    assert "  111 of 111 files hashed in this run" in text
    assert shard(1) in text


def test_the_document_says_ok_only_without_failures() -> None:
    """`ok` is what a program looks at."""
    assert verify_document("full", "", [GOOD], LISTING)["ok"]
    assert not verify_document("full", "", [GOOD, BAD], LISTING)["ok"]


def test_what_was_stopped_is_neither_right_nor_wrong() -> None:
    """A run that ended early has not verified the whole; a file that it was reading, or never began, is not wrong."""
    begun = replace(GOOD, status="failed", error=ActionFailed("interrupted", f"{shard(2)}: stopped at 1 bytes"))
    left = replace(GOOD, status="skipped", size_bytes=0)

    assert f"{LISTING.repo} at 4b1c7e90d2f3: interrupted\n  claim" == verify_text("claim", [left], LISTING)
    assert "wrong" not in verify_text("claim", [GOOD, begun, left], LISTING)
    assert ": 1 file wrong, interrupted" in verify_text("claim", [BAD, begun, left], LISTING)
    assert [False, False] == [verify_document("full", "", [GOOD, o], LISTING)["ok"] for o in (begun, left)]


def test_a_file_that_was_mended_is_named_with_what_was_wrong() -> None:
    """A repaired checkpoint is verified; that it was damaged is not kept silent."""
    mended = replace(GOOD, before="sha256 is 12…", after="fetched again and proven", source="hub")
    text = verify_text("111 of 111 files hashed in this run", [mended], LISTING)

    assert ": verified" in text
    assert f"mended {GOOD.title}" in text
    assert "it was: sha256 is 12…; fetched again and proven from hub" in text


def test_the_age_of_the_oldest_hash_is_told() -> None:
    """A scrub that does not get round shows; a file without any hash has no age."""
    old = verify_text("claim", [GOOD], LISTING, 12.5 * 86400)

    assert "  the oldest proof by a hash is 12 d old" in old
    assert "oldest" not in verify_text("claim", [GOOD], LISTING)
    assert (600.0, None) == tuple(
        verify_document("full", "", [GOOD], LISTING, age)["oldest_hash_age_s"] for age in (600.04, None)
    )
