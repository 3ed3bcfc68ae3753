"""How does a plan read: what would change, how much of it, and why?"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from report_samples import LISTING, PLACEMENT, PLAN, READY_PLAN, SHARD_BYTES, shard

from kboot.checkpoint import Share
from kboot.plan.choice import choose
from kboot.plan.types import FetchFile, FetchShare, VerifyFile, WarmFile, WriteHandoff, WriteSetting
from kboot.report.text_plan import group_actions, left_bytes, placement_rows, plan_text

Golden = Callable[[str, str], None]


def test_a_plan_of_a_bare_node(golden: Golden) -> None:
    """Every phase with its actions, their reasons and order; 110 fetches are one line."""
    golden("plan.txt", plan_text(PLAN))


def test_a_plan_of_a_ready_node(golden: Golden) -> None:
    """A node that is right says so in its first line."""
    golden("plan-ready.txt", plan_text(READY_PLAN))


def test_a_node_of_which_only_a_part_was_asked_is_not_called_ready() -> None:
    """What --only and --skip leave out may have much to do."""
    asked = replace(READY_PLAN, phases=choose(READY_PLAN.phases, ("fetch",), ()))

    assert "nothing to do in the phases that are not left out" in plan_text(asked).splitlines()[0]


def test_a_commit_that_was_asked_for_by_its_name_is_written_once() -> None:
    """The short form of it, and where the listing came from."""
    named = replace(PLAN, listing=replace(LISTING, revision=LISTING.commit, origin="listing on this disk"))
    (line,) = [line for line in plan_text(named).splitlines() if line.startswith("  checkpoint ")]

    assert line.endswith(f" at {LISTING.commit[:12]} (listing on this disk)")


def test_a_verbose_plan_lists_every_file_and_variable(golden: Golden) -> None:
    """-v shows what the short form adds up."""
    text = plan_text(PLAN, verbose=True)

    assert all(shard(n + 1) in text for n in range(111))
    golden("plan-verbose.txt", text)


def test_parts_of_files_are_a_group_of_their_own() -> None:
    """What is left of them counts, not the size of the files."""
    share = Share(0b111, "gpu02", frozenset({0}), 700, 200)
    parts = [FetchShare(file, share, "the other experts are other nodes'") for file in LISTING.files[:3]]

    (group,) = group_actions(parts)

    assert ("fetch this node's part of 3 files", 1500) == (group.title, group.size_bytes)
    assert "fetch this node's part of model-00001-of-00111.safetensors" == group_actions(parts[:1])[0].title


def test_actions_of_one_kind_and_reason_are_grouped_with_their_bytes() -> None:
    """A group counts its files and the bytes left; another reason begins another group."""
    resumed = FetchFile(LISTING.files[0], SHARD_BYTES - 5, "part of it is here")
    fresh = [FetchFile(f, 0, "not on this disk") for f in LISTING.files[1:4]]

    first, second = group_actions([resumed, *fresh])

    assert ("fetch model-00001-of-00111.safetensors", 5) == (first.title, first.size_bytes)
    assert ("fetch 3 files", 3 * SHARD_BYTES) == (second.title, second.size_bytes)


def test_one_setting_on_many_cpus_is_one_line() -> None:
    """224 governors are one line; those that stood otherwise are another."""
    paths = [f"/sys/devices/system/cpu/cpu{n}/cpufreq/scaling_governor" for n in range(224)]
    writes = [WriteSetting(path, "performance", "powersave", "asked") for path in paths[:200]]
    others = [WriteSetting(path, "performance", "schedutil", "asked") for path in paths[200:]]

    assert [
        "set 200 settings = performance (now powersave)",
        "set 24 settings = performance (now schedutil)",
    ] == [g.title for g in group_actions([*writes, *others])]


def test_actions_that_are_not_of_files_are_never_merged() -> None:
    """Two records for the same reason are two lines: only files are many of a kind."""
    assert 1 == len(group_actions([WriteHandoff("a"), WriteHandoff("a")]))
    assert 2 == len(group_actions([WriteHandoff("a"), WriteHandoff("b")]))


def test_only_bytes_that_move_or_are_read_count() -> None:
    """A quick look at a file reads no bytes worth counting; a resident part is not read again."""
    file = LISTING.files[0]

    assert 0 == left_bytes(VerifyFile(file, "quick", "why"))
    assert SHARD_BYTES == left_bytes(VerifyFile(file, "full", "why"))
    assert 7 == left_bytes(WarmFile(file, SHARD_BYTES - 7, "why"))


def test_workers_alike_share_a_row() -> None:
    """Eight workers of 14 CPUs are one row; CPU sets are in the kernel's form."""
    assert [
        (
            "workers 0-7",
            "14 CPUs, 14 threads each: 0-13 | 14-27 | 28-41 | 42-55 | 56-69 | 70-83 | 84-97 | 98-111",
        ),
        ("front ends", "CPUs 112-115"),
    ] == placement_rows(PLACEMENT)


def test_the_words_of_a_plan_keep_within_80_columns() -> None:
    """No line is wider than a terminal, but for words that are there to be copied."""
    for line in plan_text(PLAN, verbose=True).splitlines():
        assert len(line) <= 80 or " " not in line.strip() or "=" in line
