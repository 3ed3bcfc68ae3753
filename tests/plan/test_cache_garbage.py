"""Which kernel caches may be let go, and why?"""

from __future__ import annotations

from dataclasses import replace

from kboot.engines.types import CacheKey, of_command
from kboot.plan.cache_garbage import Aside, Budget, CacheFolder, choose_aside, choose_garbage

GB = 10**9
DAY_S = 86_400.0
NOW = 400 * DAY_S


def folder(key: str, days: float | None, *, complete: bool = True, size: int = GB, made: float = 300) -> CacheFolder:
    """A folder of this size, last used and made so many days ago."""
    used = None if days is None else NOW - days * DAY_S
    return CacheFolder(key, {}, complete, size, 1, used, NOW - made * DAY_S)


def chosen(folders: list[CacheFolder], limit: int = 0, days: float = 0, in_use: tuple[str, ...] = ()) -> dict[str, str]:
    """Return what would be removed, and why."""
    found = choose_garbage(folders, Budget(limit, days * DAY_S), NOW, in_use)
    return {f.key: why for f, why in found}


def test_incomplete_folders_that_were_replaced_go() -> None:
    """A folder with which no boot reached ready goes, unless it is the one in use, or so young that one may fill it."""
    folders = [
        folder("old", 9, complete=False),
        folder("good", 5),
        folder("now", 2, complete=False),
        folder("young", None, complete=False, made=0.5),
    ]

    assert {"old": "no boot with it reached ready"} == chosen(folders)


def test_a_wrapped_commands_caches_go_by_age_alone() -> None:
    """No boot completes them, and every start makes the folder anew: that is when it was of use."""
    made = of_command(CacheKey("exec", {"engine": "command"})).factors
    folders = [replace(folder("exec", None, complete=False, made=9), factors=made), folder("good", 1)]

    assert {} == chosen(folders)
    assert {"exec": "not used for 9 days"} == chosen(folders, days=7)


def test_over_budget_the_longest_unused_go_first() -> None:
    """The budget is met by the oldest; without a budget complete folders stay."""
    folders = [folder("a", 9), folder("b", 5), folder("c", 1)]

    assert {} == chosen(folders)
    assert {"a": "over the budget, longest unused"} == chosen(folders, limit=2 * GB)


def test_too_old_ones_go() -> None:
    """By the last boot with them; an archive that was taken in a moment ago counts as used."""
    folders = [folder("now", 1), folder("a", 90), folder("b", 90, made=3), folder("never", None, made=200)]

    assert {"a": "not used for 90 days", "never": "not used for 200 days"} == chosen(folders, days=60)


def test_the_folder_in_use_and_the_last_good_one_stay_whatever_the_budget() -> None:
    """Never the current key, the last complete one, or one that an engine or the hand-off record has."""
    folders = [
        folder("good", 90, size=9 * GB),
        folder("now", 80, complete=False, size=9 * GB),
        folder("x", 200),
        folder("record", 300, size=9 * GB),
        folder("imported", None, made=2),
    ]

    assert ["imported", "x"] == sorted(chosen(folders, limit=1, days=1, in_use=("record",)))


def test_what_was_put_aside_is_kept_for_a_person_for_a_month() -> None:
    """Or as long as caches are, where that is shorter."""
    aside = [Aside("k/old", 1, NOW - 40 * DAY_S), Aside("k/new", 1, NOW - 10 * DAY_S)]

    assert ["k/old"] == [a.path for a in choose_aside(aside, Budget(), NOW)]
    assert ["k/new", "k/old"] == [a.path for a in choose_aside(aside, Budget(0, 5 * DAY_S), NOW)]
