"""Where do the engine's kernel caches live for this boot, and is that folder new?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from kboot.plan.types import PrepareCache

if TYPE_CHECKING:
    from kboot.engines.types import CacheKey
    from kboot.facts.types import CacheFacts


def plan_cache(caches: CacheFacts, key: CacheKey, path: str, seed: str = "") -> tuple[tuple[PrepareCache, ...], str]:
    """Return the folder to prepare and a note; the reason of a new key names what differs from the nearest old one.

    seed: archive that fills a folder in which nothing is yet; {key} in it stands for the key's name.
    """
    seed = seed.replace("{key}", key.name)
    if caches.factors_of.get(key.name) == dict(key.factors):
        if seed and caches.scan is not None and not caches.scan.files and key.name not in caches.complete:
            return (PrepareCache(key, path, "nothing is in its folder yet", seed),), ""
        state = "complete" if key.name in caches.complete else "not completed by any boot yet"
        return (), f"kernel cache {key.name} is there ({state})"
    return (PrepareCache(key, path, _why_new(caches, key), seed),), ""


def _why_new(caches: CacheFacts, key: CacheKey) -> str:
    if not caches.factors_of:
        return "first boot with kernel caches on this node"
    nearest = min(caches.factors_of, key=lambda name: (len(differing(caches.factors_of[name], key.factors)), name))
    changes = differing(caches.factors_of[nearest], key.factors)
    if not changes:
        return f"factors of {nearest} are the same, its folder name is not"
    return "; ".join(f"{name} was {old or 'absent'}, is {new or 'absent'}" for name, old, new in changes)


def differing(old: Mapping[str, str], new: Mapping[str, str]) -> tuple[tuple[str, str, str], ...]:
    """Return (factor, old value, new value) for every factor that is not the same."""
    names = sorted(old.keys() | new.keys())
    return tuple((n, old.get(n, ""), new.get(n, "")) for n in names if old.get(n) != new.get(n))


def misfits(archived: Mapping[str, str], here: Mapping[str, str]) -> tuple[str, ...]:
    """Return why an archive's caches may not be used here, a phrase for each factor; what only it has is not judged."""
    names = [
        name for name, _, _ in differing(archived, here) if name in here or name.startswith(("package.", "build."))
    ]
    return tuple(f"{n} is {archived.get(n) or 'absent'} in it, {here.get(n) or 'absent'} here" for n in names)
