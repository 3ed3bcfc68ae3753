"""Which kernel caches may be let go, and why?"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from kboot.engines.types import is_of_command
from kboot.values import dataclass

_DAY_S = 86_400.0
SETTLED_S = _DAY_S
"""An incomplete folder younger than this may be one that a boot is filling."""

QUARANTINE_S = 30 * _DAY_S
"""How long what was put aside is kept for a person to look at."""


@dataclass(frozen=True, slots=True)
class CacheFolder:
    """One folder of kernel caches. last_used_unix_s: start of the last boot with this key; None when not on record.

    made_unix_s: when kboot made the folder, or filled it from an archive.
    """

    key: str
    factors: Mapping[str, str]
    complete: bool
    size_bytes: int
    files: int
    last_used_unix_s: float | None
    made_unix_s: float = 0.0

    @property
    def of_command(self) -> bool:
        """It is a wrapped command's: nobody knows when that is ready, and each start makes the folder anew."""
        return is_of_command(self.factors)

    @property
    def touched_unix_s(self) -> float:
        """When it was last of use."""
        return max(self.last_used_unix_s or 0.0, self.made_unix_s)


@dataclass(frozen=True, slots=True)
class Aside:
    """One entry of the quarantine. path: below it."""

    path: str
    size_bytes: int
    since_unix_s: float


@dataclass(frozen=True, slots=True)
class Budget:
    """limit_bytes, max_age_s: 0 = no limit."""

    limit_bytes: int = 0
    max_age_s: float = 0.0


def choose_garbage(
    folders: Sequence[CacheFolder], budget: Budget, now_unix_s: float, in_use: Collection[str] = ()
) -> tuple[tuple[CacheFolder, str], ...]:
    """Return the folders to remove, each with the reason.

    in_use: keys of the hand-off record and of running engines.

    1. Those in use, the last used one and the last used complete one stay, whatever the budget.
    2. Incomplete folders that a later boot has replaced go: they hold no state worth a boot.
    3. Those that no boot has used for too long go.
    4. Over budget, the longest unused go first.
    """
    by_use = sorted(folders, key=lambda f: (f.touched_unix_s, f.key), reverse=True)
    by_boot = sorted(folders, key=lambda f: (f.last_used_unix_s or 0.0, f.touched_unix_s, f.key), reverse=True)
    keep = {f.key for f in (by_boot[:1] + [f for f in by_boot if f.complete][:1])} | set(in_use)
    chosen: dict[str, str] = {}
    for folder in by_use:
        age_s = now_unix_s - folder.touched_unix_s
        if folder.key in keep:
            continue
        if not folder.complete and not folder.of_command and age_s > SETTLED_S:
            chosen[folder.key] = "no boot with it reached ready"
        elif budget.max_age_s and age_s > budget.max_age_s:
            chosen[folder.key] = f"not used for {age_s / _DAY_S:.0f} days"
    total = sum(f.size_bytes for f in by_use if f.key not in chosen)
    for folder in reversed(by_use):
        if not budget.limit_bytes or total <= budget.limit_bytes:
            break
        if folder.key not in keep and folder.key not in chosen and (folder.complete or _settled(folder, now_unix_s)):
            chosen[folder.key] = "over the budget, longest unused"
            total -= folder.size_bytes
    return tuple((f, chosen[f.key]) for f in sorted(folders, key=lambda f: f.key) if f.key in chosen)


def _settled(folder: CacheFolder, now_unix_s: float) -> bool:
    return now_unix_s - folder.touched_unix_s > SETTLED_S


def choose_aside(aside: Sequence[Aside], budget: Budget, now_unix_s: float) -> tuple[Aside, ...]:
    """Return what leaves the quarantine: what lay there long enough for a person to look at it."""
    longest_s = min(QUARANTINE_S, budget.max_age_s or QUARANTINE_S)
    return tuple(sorted((a for a in aside if now_unix_s - a.since_unix_s > longest_s), key=lambda a: a.path))
