"""Which bytes must move, be proven, be read into memory?"""

from __future__ import annotations

from dataclasses import replace

import literals
import pytest

from kboot.facts.types import MemoryFacts
from kboot.plan.fetch import plan_bytes, plan_fetch, plan_verify, plan_warm
from kboot.profile.types import WarmAsk

MEMORY = MemoryFacts(1000, 1000, None, 0, 0, None, None)


def test_a_complete_verified_warm_checkpoint_needs_nothing() -> None:
    """A second boot of a good node has an empty plan, and every phase says why it is empty."""
    facts = literals.checkpoint(("a", "verified", 100), ("b", "verified", 100))
    phases = plan_bytes(facts, "ledger", WarmAsk(), MEMORY, "/state/models/p")

    assert [()] * 4 == [p.actions for p in phases]
    assert all(p.note for p in phases)


def test_only_what_is_not_whole_is_fetched_and_the_largest_remainder_first() -> None:
    """Absent, partial and damaged files are fetched; partial ones from where they stopped."""
    facts = literals.checkpoint(("a", "partial", 60), ("b", "verified", 100), ("c", "absent", 0), ("d", "damaged", 100))
    actions = plan_fetch(facts)

    assert ["c", "a", "d"] == [a.file.path for a in actions]
    assert {"a": 60, "c": 0, "d": 0} == {a.file.path: a.have_bytes for a in actions}
    assert "60 B of 100 B are here from an earlier try" == actions[1].reason


def test_bytes_nobody_hashed_are_hashed_in_every_mode() -> None:
    """A present file without a ledger row is proven in full even when the mode is ledger."""
    actions = plan_verify(literals.checkpoint(("a", "present", 100), ("b", "verified", 100)), "ledger")

    assert [("a", "full")] == [(a.file.path, a.mode) for a in actions]


def test_quick_and_full_ask_for_more_than_the_ledger() -> None:
    """Mode quick looks at the structure of verified files, mode full at every byte."""
    facts = literals.checkpoint(("a", "verified", 100))

    assert [["quick"], ["full"]] == [[a.mode for a in plan_verify(facts, m)] for m in ("quick", "full")]


def test_an_unpublished_checkpoint_is_published_after_fetch_and_verify() -> None:
    """The serving path is moved only once everything is proven."""
    phases = plan_bytes(
        literals.checkpoint(("a", "verified", 100), published=False), "ledger", WarmAsk(), MEMORY, "/state/models/p"
    )
    publish = next(p for p in phases if p.name == "publish")

    assert 1 == len(publish.actions)
    assert ("fetch", "verify") == publish.after


def test_warming_stops_where_memory_does() -> None:
    """250 bytes of page cache warm two cold files of 100, not the third; load order is kept."""
    facts = literals.checkpoint(*((n, "verified", 100) for n in "abc"), resident=False)
    actions, note = plan_warm(facts, WarmAsk(max_memory_fraction=0.25), MEMORY)

    assert ["a", "b"] == [a.file.path for a in actions]
    assert "memory for warming ends at c" == note


def test_a_memory_cgroup_counts_as_all_the_memory_there_is() -> None:
    """A limit of 100 bytes on the service lets one file be warmed, whatever the machine has."""
    facts = literals.checkpoint(*((n, "verified", 100) for n in "ab"), resident=False)
    actions, _ = plan_warm(facts, WarmAsk(max_memory_fraction=1.0), replace(MEMORY, limit_bytes=100))

    assert ["a"] == [a.file.path for a in actions]


def test_warming_can_be_turned_off() -> None:
    """warm.enabled = false: nothing is read, and the note says who decided that."""
    facts = literals.checkpoint(("a", "verified", 100), resident=False)
    actions, note = plan_warm(facts, WarmAsk(enabled=False), MEMORY)

    assert () == actions
    assert "warm.enabled = false" in note


@pytest.mark.parametrize(
    ("size", "cold", "warmed"),
    [(100 << 20, 1 << 20, False), (100 << 20, 2 << 20, True), (1 << 20, 64 << 10, False), (100, 1, True)],
)
def test_a_few_pages_that_the_kernel_took_back_are_left(size: int, cold: int, warmed: bool) -> None:
    """A second boot of a good node has nothing to do, although some pages of a large file are gone by then."""
    facts = literals.checkpoint(("a", "verified", size))
    file = replace(facts.files[0].file, size_bytes=size)
    facts = replace(facts, files=(replace(facts.files[0], file=file, resident_bytes=size - cold),))
    memory = replace(MEMORY, total_bytes=1 << 40, available_bytes=1 << 40)

    assert warmed == bool(plan_warm(facts, WarmAsk(), memory)[0])
