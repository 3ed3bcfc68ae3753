"""Where do the engine's kernel caches live for this boot, and is that folder new?"""

from __future__ import annotations

from kboot.engines.types import CacheKey
from kboot.facts.types import CacheFacts, CacheScan
from kboot.plan.cache import differing, misfits, plan_cache

KEY = CacheKey("sm90-driver580.82", {"driver": "580.82", "arch": "sm90"})
NONE = CacheFacts({}, frozenset())


def test_a_known_key_needs_nothing_and_says_whether_it_is_complete() -> None:
    """Same name, same factors: no action; the note tells complete from half-made."""
    known = {KEY.name: dict(KEY.factors)}

    assert () == plan_cache(CacheFacts(known, frozenset({KEY.name})), KEY, "/c")[0]
    assert "(complete)" in plan_cache(CacheFacts(known, frozenset({KEY.name})), KEY, "/c")[1]
    assert "not completed" in plan_cache(CacheFacts(known, frozenset()), KEY, "/c")[1]


def test_a_new_key_names_the_factor_that_changed_since_the_nearest_one() -> None:
    """After a driver update the reason is the driver, not the older, farther key."""
    old = {
        "near": {"driver": "580.65", "arch": "sm90"},
        "far": {"driver": "570.1", "arch": "sm80"},
    }
    (action,), _ = plan_cache(CacheFacts(old, frozenset()), KEY, "/c")

    assert "driver was 580.65, is 580.82" == action.reason


def test_the_first_key_of_a_node_says_so() -> None:
    """Nothing to compare with on a first boot."""
    (action,), _ = plan_cache(CacheFacts({}, frozenset()), KEY, "/c")

    assert "first boot with kernel caches on this node" == action.reason


def test_differences_name_added_and_removed_factors() -> None:
    """A factor that is only on one side has an empty value on the other."""
    assert (("a", "1", ""), ("b", "", "2")) == differing({"a": "1", "c": "3"}, {"b": "2", "c": "3"})


def test_a_seed_fills_a_key_in_whose_folder_nothing_is_yet() -> None:
    """A new key, or one that a boot prepared and no engine has filled; {key} stands for its name."""
    known = {KEY.name: dict(KEY.factors)}
    empty, filled = (CacheScan(files=n, size_bytes=n, looked_at=0) for n in (0, 3))

    assert ["/s/sm90-driver580.82.zst"] == [a.seed for a in plan_cache(NONE, KEY, "/c", "/s/{key}.zst")[0]]
    assert ["/s"] == [a.seed for a in plan_cache(CacheFacts(known, frozenset(), empty), KEY, "/c", "/s")[0]]
    assert () == plan_cache(CacheFacts(known, frozenset(), filled), KEY, "/c", "/s")[0]
    assert () == plan_cache(CacheFacts(known, frozenset({KEY.name}), empty), KEY, "/c", "/s")[0]


def test_an_archives_factors_are_compared_with_this_nodes() -> None:
    """What both have, and every package; the archive's model and layout are its own."""
    here = {"driver": "590.1", "gpu_arch": "sm90", "package.torch": "2.14"}
    archived = {"driver": "580.82", "gpu_arch": "sm90", "package.triton": "3.8", "commit": "c"}

    assert (
        "driver is 580.82 in it, 590.1 here",
        "package.torch is absent in it, 2.14 here",
        "package.triton is 3.8 in it, absent here",
    ) == misfits(archived, here)
