"""What is said of a checkpoint that is missing, damaged, unproven or old."""

from __future__ import annotations

from dataclasses import replace

import pytest
from good_node import CHECKPOINT, NODE, NOW_S, PROFILE, SHARDS, files

from kboot.checkpoint import LocalFile
from kboot.checks import cache_complete, ckpt_complete, ckpt_terms, ckpt_verified
from kboot.checks.words import count, percent, ranges, some
from kboot.facts.types import CacheFacts, Gap
from kboot.profile.node_config import OperatorAsk
from kboot.profile.types import CacheAsk


def test_missing_files_are_counted_with_their_bytes() -> None:
    """Three of 96 shards to fetch is a warning: boot does it."""
    finding = ckpt_complete.run(NODE, PROFILE, files("absent"))

    assert ("warn", "3 of 96 files of org/model@c0ffee000000 are not here yet, 24.0 GB to fetch") == (
        finding.status,
        finding.seen,
    )


def test_a_damaged_file_is_named_and_fails() -> None:
    """An engine must not load it; `kboot verify --repair` is the fix."""
    finding = ckpt_complete.run(NODE, PROFILE, files("damaged", 1, why="its size is 10, listed is 8000000000"))

    assert "fail" == finding.status
    assert "1 file damaged: model-00001-of-00096.safetensors (its size is 10, listed is 8000000000)" == finding.seen


def test_files_that_nothing_leads_to_are_a_warning() -> None:
    """All blobs are here, but models/<profile> points elsewhere."""
    assert "warn" == ckpt_complete.run(NODE, PROFILE, replace(CHECKPOINT, published=False)).status


def test_bytes_that_nobody_hashed_must_not_be_served() -> None:
    """Unproven files behind the serving path fail; before they are published boot hashes them."""
    unproven = files("present")

    assert ("fail", "warn") == (
        ckpt_verified.run(NODE, PROFILE, unproven).status,
        ckpt_verified.run(NODE, PROFILE, replace(unproven, published=False)).status,
    )


def test_the_oldest_proof_counts() -> None:
    """A file that was hashed 40 days ago makes the checkpoint stale."""
    old = files("verified", 1, verified_unix_s=NOW_S - 40 * 86400)
    finding = ckpt_verified.run(NODE, PROFILE, old)

    assert ("warn", "96 of 96 files verified, the oldest 40 d ago") == (finding.status, finding.seen)


def test_what_is_here_in_part_is_said_with_who_vouches_for_it() -> None:
    """Three shards of which a quarter is here: nothing is missing, and not all of it was proven by a file's hash."""
    parts = (LocalFile(f, "shared", 2 * 10**9, verified_unix_s=NOW_S, told_by="gpu02") for f in SHARDS[:3])
    part = replace(CHECKPOINT, files=(*parts, *CHECKPOINT.files[3:]))
    seen = ckpt_verified.run(NODE, PROFILE, part).seen

    assert ("ok", True) == (
        ckpt_complete.run(NODE, PROFILE, part).status,
        "of 3 what this node's ranks load" in ckpt_complete.run(NODE, PROFILE, part).seen,
    )
    assert "6 of 24 GB in 3 files proven by range digests that gpu02 published, not by the file's own hash" in seen


def test_an_unreadable_ledger_is_not_a_checkpoint_nobody_hashed() -> None:
    """Without the ledger it is not known whether files were hashed."""
    facts = replace(NODE, gaps=(Gap("ledger", "/var/lib/kboot/ledger.db", "database is locked"),))

    assert "unknown" == ckpt_verified.run(facts, PROFILE, files("present")).status


def test_a_checkpoint_that_could_not_be_looked_at_says_why() -> None:
    """A disk that does not answer is not an empty one."""
    facts = replace(NODE, gaps=(Gap("checkpoint", "/var/lib/kboot/hub", "no answer in 6 s"),))
    finding = ckpt_complete.run(facts, PROFILE, None)

    assert ("unknown", True) == (finding.status, "no answer in 6 s" in finding.seen)


def test_a_cache_without_its_mark_is_named() -> None:
    """Its boot never reached ready, so the engine compiles again."""
    facts = replace(NODE, caches=CacheFacts({"a": {}, "b": {}}, frozenset({"a"})))

    assert "1 of 2 caches without a completion mark: b" == cache_complete.run(facts, PROFILE, None).seen
    assert "skip" == cache_complete.run(facts, replace(PROFILE, cache=CacheAsk(enabled=False)), None).status


def test_numbers_are_written_for_people() -> None:
    """Counts with their noun, lists as the kernel writes them."""
    assert ("1 GPU", "0 GPUs", "2 mice") == (count(1, "GPU"), count(0, "GPU"), count(2, "mouse", "mice"))
    assert "20,000 files" == count(20_000, "file")
    assert ("0-3,8", "") == (ranges([3, 2, 0, 1, 8]), ranges([]))
    assert "a, b, c, d and 2 more" == some("abcdef")
    assert ("72 %", "0 %") == (percent(0.718), percent(0))


@pytest.mark.parametrize(
    ("declared", "status", "words"),
    [
        (OperatorAsk(use="internal"), "ok", "none of 1 conditions of Model License applies to what is declared"),
        (OperatorAsk(use="sells-access", monthly_users=101), "warn", "an agreement: applies (monthly_users 101"),
        (OperatorAsk(use="sells-access"), "unknown", "operator.monthly_users is not declared, the bound is 100"),
        (OperatorAsk(), "unknown", "operator.use is not declared"),
    ],
    ids=str,
)
def test_terms_are_judged_by_what_the_operator_declares(declared: OperatorAsk, status: str, words: str) -> None:
    """A condition that applies is a warning with its numbers; nothing declared is unknown, never ok."""
    finding = ckpt_terms.CHECK.run(NODE, replace(PROFILE, declared=declared), CHECKPOINT)

    assert status == finding.status
    assert words in finding.seen
