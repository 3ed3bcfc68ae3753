"""`kboot cache gc`: which kernel caches are let go, and why?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from kboot.cli.cache.folders import find_folders, keys_in_use
from kboot.cli.options import (
    Asked,
    AtLeast,
    Command,
    Common,
    Node,
    need_this_machine,
    open_node,
    open_profile,
    own_machine_options,
    profile_options,
    show,
)
from kboot.errors import ExitStatus
from kboot.values import dataclass

if TYPE_CHECKING:
    from kboot.apply.cache_gc import Removed
    from kboot.plan.cache_garbage import Aside, Budget, CacheFolder

_GIB = 1 << 30
_DAY_S = 86_400
_BOOT_WAIT_S = 2.0
_STATUSES = (
    (ExitStatus.DONE, "removed, or there was nothing to remove"),
    (ExitStatus.USAGE, "--root: another machine than this one is meant"),
    (ExitStatus.PROFILE, "the profile or configuration is not valid"),
    (ExitStatus.ACTION_FAILED, "a boot is under way, or a folder cannot be removed"),
)


@dataclass(frozen=True, slots=True)
class Garbage:
    """What a clean-up takes away."""

    folders: tuple[tuple[CacheFolder, str], ...]
    aside: tuple[Aside, ...]

    @property
    def size_bytes(self) -> int:
        """Sum of all of it."""
        return sum(f.size_bytes for f, _ in self.folders) + sum(a.size_bytes for a in self.aside)


@click.command(
    "gc",
    cls=Command,
    short_help="Remove caches that no boot uses.",
    examples=(
        ("kboot cache gc --dry-run", "what would be removed, and why"),
        ("kboot cache gc --max-gib 50", "with a budget of 50 GiB"),
    ),
    statuses=_STATUSES,
)
@click.option("--dry-run", is_flag=True, help="Show what would be removed, remove nothing.")
@click.option("--max-gib", type=AtLeast(0), metavar="N", help="Budget; 0 or nothing: the profile's, else none.")
@click.option(
    "--max-age-days", type=AtLeast(0), metavar="N", help="Longest unused; 0 or nothing: the profile's, else any."
)
@profile_options
@own_machine_options
def gc_command(common: Common, asked: Asked, dry_run: bool, max_gib: int | None, max_age_days: int | None) -> None:
    """Remove cache folders that no boot uses; never the current key's, nor the last with which an engine was ready."""
    node = open_node(common)
    budget = _budget(asked, node, max_gib, max_age_days)
    if dry_run:
        garbage, removed = _find(node, budget), None
    else:
        garbage, removed = _collect(node, budget)
    show(common, lambda: _text(garbage, removed), lambda: _document(garbage, budget, removed))


def _budget(asked: Asked, node: Node, max_gib: int | None, max_age_days: int | None) -> Budget:
    from kboot.plan.cache_garbage import Budget

    named = asked.name or node.config.profile
    cache = open_profile(asked, node).cache if named else None
    gib = max_gib or (cache.max_gib if cache else 0)
    days = max_age_days or (cache.max_age_days if cache else 0)
    return Budget(gib * _GIB, float(days * _DAY_S))


def _find(node: Node, budget: Budget) -> Garbage:
    from kboot.apply.cache_gc import list_aside
    from kboot.host.clock import unix_s
    from kboot.plan.cache_garbage import choose_aside, choose_garbage

    now = unix_s()
    folders = choose_garbage(find_folders(node), budget, now, keys_in_use(node))
    return Garbage(folders, choose_aside(list_aside(node.paths.cache), budget, now))


def _collect(node: Node, budget: Budget) -> tuple[Garbage, Removed]:
    """Remove what is found while no boot runs: a boot may be about to use an old key again."""
    from kboot.apply.cache_gc import remove_caches
    from kboot.host.files import make_dirs
    from kboot.host.locks import lock_file

    need_this_machine(node.host, "kboot cache gc")
    make_dirs(node.paths.runtime)
    with lock_file(node.paths.runtime / "boot.lock", _BOOT_WAIT_S):
        garbage = _find(node, budget)
        return garbage, remove_caches(node.paths.cache, [f.key for f, _ in garbage.folders], garbage.aside)


def _text(garbage: Garbage, removed: Removed | None) -> str:
    from kboot.quantities import show_bytes
    from kboot.report.render_text import join, table

    kept = dict(removed.kept) if removed else {}
    rows = [(f.key, show_bytes(f.size_bytes), kept.get(f.key, why)) for f, why in garbage.folders]
    rows += [(a.path, show_bytes(a.size_bytes), "put aside long ago") for a in garbage.aside]
    if not rows and not (removed and removed.swept):
        return "nothing to remove" if removed else "nothing would be removed"
    gone = garbage.size_bytes - sum(f.size_bytes for f, _ in garbage.folders if f.key in kept)
    swept = f", {removed.swept} leftovers of killed runs" if removed and removed.swept else ""
    last = f"{show_bytes(gone)} removed{swept}" if removed else f"{show_bytes(gone)} would be removed"
    return join([*table(rows, 0), last])


def _document(garbage: Garbage, budget: Budget, removed: Removed | None) -> dict[str, Any]:
    from kboot.report.document import document, plain

    return document(
        "cache-gc",
        {
            "dry_run": removed is None,
            "max_gib": budget.limit_bytes // _GIB,
            "max_age_days": int(budget.max_age_s) // _DAY_S,
            "remove": _rows(garbage.folders),
            "aside": plain(garbage.aside),
            "removed": plain(removed),
        },
    )


def _rows(folders: Sequence[tuple[CacheFolder, str]]) -> list[dict[str, Any]]:
    from kboot.report.document import plain

    return [{**plain(folder), "why": why} for folder, why in folders]
