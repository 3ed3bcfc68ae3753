"""Removes kernel caches that were chosen; what is half removed never has the name of a cache."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from kboot.apply.cache_import import LOCK, sweep_imports
from kboot.host.environs import pids_with
from kboot.host.files import file_names, remove_tree, rename
from kboot.host.locks import lock_file
from kboot.host.tree import read_tree
from kboot.plan.cache_garbage import Aside
from kboot.store.cache_files import QUARANTINE
from kboot.values import dataclass

_GONE = ".kboot-gone-"
_LOCK_WAIT_S = 10.0


@dataclass(frozen=True, slots=True)
class Removed:
    """keys: removed. kept: (key, why) of those that turned out to be in use. swept: leftovers of killed runs."""

    keys: tuple[str, ...]
    kept: tuple[tuple[str, str], ...]
    aside: tuple[str, ...]
    swept: int


def remove_caches(
    cache: Path, keys: Sequence[str], aside: Sequence[Aside], lock_wait_s: float = _LOCK_WAIT_S
) -> Removed:
    """Remove the folders of these keys and these entries of the quarantine, and what killed runs left.

    A folder that a running process was given is kept.

    Raises:
        ActionFailed: another kboot fills the caches now ("locked"), or the disk says no.
    """
    if not cache.is_dir():
        return Removed((), (), (), 0)
    with lock_file(cache / LOCK, lock_wait_s):
        swept = sweep_imports(cache) + _sweep_gone(cache)
        removed, kept = [], []
        for key in keys:
            users = pids_with(f"{cache / key}/")
            if users:
                kept.append((key, f"process {', '.join(map(str, users[:5]))} was started with it"))
            else:
                _remove(cache / key, cache)
                removed.append(key)
        for entry in aside:
            _remove(cache / QUARANTINE / entry.path, cache)
        return Removed(tuple(removed), tuple(kept), tuple(a.path for a in aside), swept)


def list_aside(cache: Path) -> tuple[Aside, ...]:
    """Return what lies in the quarantine."""
    top = cache / QUARANTINE
    found = []
    for key in file_names(top):
        for name in file_names(top / key):
            with suppress(OSError):
                tree = read_tree(top / key / name)
                found.append(Aside(f"{key}/{name}", tree.size_bytes, (top / key / name).stat().st_mtime))
    return tuple(found)


def _remove(folder: Path, cache: Path) -> None:
    """Take the name away in one step, then the content: a kill in between leaves nothing that looks like a cache."""
    if folder.exists():
        gone = cache / f"{_GONE}{secrets.token_hex(6)}.tmp"
        rename(folder, gone)
        remove_tree(gone)


def _sweep_gone(cache: Path) -> int:
    left = list(cache.glob(f"{_GONE}*.tmp"))
    for path in left:
        remove_tree(path)
    return len(left)
