"""Which folders of kernel caches are on this node, how large, and used when?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kboot.cli.options import Node
    from kboot.report.types import BootReport


@dataclass(frozen=True, slots=True)
class CacheFolder:
    """One folder of kernel caches. last_used_unix_s: start of the last boot with this key; None when not on record."""

    key: str
    factors: Mapping[str, str]
    complete: bool
    size_bytes: int
    files: int
    last_used_unix_s: float | None


def find_folders(node: Node) -> tuple[CacheFolder, ...]:
    """Return the cache folders of this node, by key."""
    from kboot.facts.caches import collect_caches
    from kboot.report.saved import KEPT_BOOTS, load_reports

    facts, _ = collect_caches(node.host, node.paths)
    used = last_use(load_reports(node.paths, KEPT_BOOTS))
    return tuple(
        CacheFolder(key, factors, key in facts.complete, *_size(node.paths.cache / key), used.get(key))
        for key, factors in sorted(facts.factors_of.items())
    )


def last_use(reports: Sequence[BootReport]) -> Mapping[str, float]:
    """Return when the last boot with each key began."""
    used: dict[str, float] = {}
    for report in reports:
        if report.cache_key:
            used[report.cache_key] = max(report.started_unix_s, used.get(report.cache_key, 0.0))
    return used


def _size(folder: Path) -> tuple[int, int]:
    """Return bytes and files below a folder; what goes away meanwhile counts for nothing."""
    size_bytes = files = 0
    for path in folder.rglob("*"):
        try:
            stat = path.lstat()
        except OSError:
            continue
        if not path.is_dir() or path.is_symlink():
            size_bytes, files = size_bytes + stat.st_size, files + 1
    return size_bytes, files
