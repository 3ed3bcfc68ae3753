"""Which folders of kernel caches are on this node, how large, and used when?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from kboot.errors import KbootError

if TYPE_CHECKING:
    from kboot.cli.options import Node
    from kboot.plan.cache_garbage import CacheFolder
    from kboot.report.types import BootReport


def find_folders(node: Node) -> tuple[CacheFolder, ...]:
    """Return the cache folders of this node, by key, with what the engine has in them: what an archive holds, too.

    Raises:
        KbootError: they may not be read.
    """
    from kboot.facts.caches import collect_caches
    from kboot.host.files import exists, file_names
    from kboot.host.tree import read_tree
    from kboot.plan.cache_garbage import CacheFolder
    from kboot.report.saved import KEPT_BOOTS, load_reports
    from kboot.store.cache_files import FACTORS, OWN

    for name in file_names(node.paths.cache):  # facts leave out what may not be read
        exists(node.paths.cache / name / FACTORS)
    facts, _ = collect_caches(node.host, node.paths)
    used = last_use(load_reports(node.paths, KEPT_BOOTS))
    found = []
    for key, factors in sorted(facts.factors_of.items()):
        tree = read_tree(node.paths.cache / key)
        made_unix_s = _made_unix_s(node.paths.cache / key)
        complete, files = key in facts.complete, [f for f in tree.files if f.path not in OWN]
        size_bytes = sum(f.size_bytes for f in files)
        found.append(CacheFolder(key, factors, complete, size_bytes, len(files), used.get(key), made_unix_s))
    return tuple(found)


def keys_in_use(node: Node) -> frozenset[str]:
    """Return the key that the hand-off record names: the next engine starts with it."""
    from kboot.apply.handoff import read_handoff

    with suppress(KbootError):  # no record, or not ours: then no engine starts from one
        return frozenset({read_handoff(node.paths).cache_key})
    return frozenset()


def last_use(reports: Sequence[BootReport]) -> Mapping[str, float]:
    """Return when the last boot with each key began."""
    used: dict[str, float] = {}
    for report in reports:
        if report.cache_key:
            used[report.cache_key] = max(report.started_unix_s, used.get(report.cache_key, 0.0))
    return used


def _made_unix_s(folder: Path) -> float:
    """Return when kboot wrote the folder's factors, or its mark of completion."""
    from kboot.store.cache_files import COMPLETE, FACTORS

    times = [0.0]
    for name in (FACTORS, COMPLETE):
        with suppress(OSError):
            times.append((folder / name).stat().st_mtime)
    return max(times)
