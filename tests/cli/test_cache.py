"""`kboot cache`: which kernel caches are kept on this node, and what would be let go?"""

from __future__ import annotations

import json

from cli_run import Kboot
from report_samples import demo_boot

from kboot.cli.cache.folders import CacheFolder
from kboot.cli.cache.gc import choose_garbage
from kboot.host.paths import Paths
from kboot.report.saved import save_report

GB = 10**9


def folder(key: str, used: float | None, *, complete: bool = True, size: int = GB) -> CacheFolder:
    """Return a folder of this size and last use."""
    return CacheFolder(key, {}, complete, size, 1, used)


def chosen(folders: list[CacheFolder], limit_bytes: int = 0) -> list[tuple[str, str]]:
    """Return what would be removed, and why."""
    return [(f.key, why) for f, why in choose_garbage(folders, limit_bytes)]


def test_incomplete_folders_that_were_replaced_go() -> None:
    """A folder with which no boot reached ready goes, unless it is the one in use."""
    old, new = folder("old", 1.0, complete=False), folder("new", 3.0, complete=False)

    assert [("old", "no boot with it reached ready")] == chosen([old, folder("good", 2.0), new])


def test_over_budget_the_longest_unused_go_first() -> None:
    """The budget is met by the oldest; without a budget complete folders stay."""
    folders = [folder("a", 1.0), folder("b", 2.0), folder("c", 3.0)]

    assert [] == chosen(folders)
    assert [("a", "over the budget, longest unused")] == chosen(folders, 2 * GB)


def test_the_folder_in_use_and_the_last_good_one_stay_whatever_the_budget() -> None:
    """Never the current key nor the last complete one."""
    folders = [folder("good", 2.0, size=9 * GB), folder("now", 3.0, complete=False, size=9 * GB), folder("x", None)]

    assert [("x", "over the budget, longest unused")] == chosen(folders, 1)


def test_folders_are_shown_with_size_factors_and_last_use(kboot: Kboot) -> None:
    """`cache status` lists what is on the disk; -v adds the factors."""
    paths = Paths(kboot.folder / "state", kboot.folder / "run", kboot.folder / "etc")
    place = paths.cache / "demo-1"
    place.mkdir(parents=True)
    (place / "factors.json").write_text(json.dumps({"driver": "580.82"}))
    (place / "kernel.bin").write_bytes(b"x" * 5000)
    save_report(demo_boot(), paths)
    (found,) = kboot("cache", "status", "--json").doc["folders"]

    assert ("demo-1", False, 2) == (found["key"], found["complete"], found["files"])
    assert demo_boot().started_unix_s == found["last_used_unix_s"]
    assert "580.82" in kboot("cache", "status", "-v").out


def test_a_node_without_caches_says_so(kboot: Kboot) -> None:
    """No cache yet is no error."""
    assert "no kernel cache" in kboot("cache", "status").out
    assert "nothing would be removed\n" == kboot("cache", "gc", "--dry-run").out
    assert [] == kboot("cache", "gc", "--dry-run", "--json").doc["remove"]


def test_a_clean_up_removes_nothing_in_this_version(kboot: Kboot) -> None:
    """Without --dry-run it refuses, rather than doing half of it."""
    assert 2 == kboot("cache", "gc").status
