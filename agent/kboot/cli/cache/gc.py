"""`kboot cache gc`: which kernel caches are let go, and why?"""

from __future__ import annotations

from collections.abc import Sequence

import click

from kboot.cli.cache.folders import CacheFolder, find_folders
from kboot.cli.options import (
    Asked,
    Command,
    Common,
    Node,
    common_options,
    not_in_this_version,
    open_node,
    open_profile,
    profile_options,
    show,
)
from kboot.errors import ExitStatus

_GIB = 1 << 30
_SHOWN = (
    (ExitStatus.DONE, "shown"),
    (ExitStatus.USAGE, "what is asked for is not in this version"),
    (ExitStatus.PROFILE, "the profile or configuration is not valid"),
)


@click.command(
    "gc",
    cls=Command,
    short_help="Show what a clean-up would remove.",
    examples=(
        ("kboot cache gc --dry-run", "what would be removed, and why"),
        ("kboot cache gc --dry-run --max-gib 50", "with a budget of 50 GiB"),
    ),
    statuses=_SHOWN,
)
@click.option("--dry-run", is_flag=True, help="Show what would be removed.")
@click.option("--max-gib", type=click.IntRange(0), metavar="N", help="Budget; 0 or nothing: the profile's, else none.")
@profile_options
@common_options
def gc_command(common: Common, asked: Asked, dry_run: bool, max_gib: int | None) -> None:
    """Show which cache folders a clean-up would remove; this version removes nothing."""
    if not dry_run:
        raise not_in_this_version("kboot cache gc without --dry-run", "`kboot cache gc --dry-run` shows what would go")
    from kboot.report.document import document, plain
    from kboot.report.render_text import join, table
    from kboot.report.units import show_bytes

    node = open_node(common)
    limit_gib = max_gib or _budget_gib(asked, node)
    garbage = choose_garbage(find_folders(node), limit_gib * _GIB)
    show(
        common,
        lambda: (
            join(table([(f.key, show_bytes(f.size_bytes), why) for f, why in garbage], 0)) or "nothing would be removed"
        ),
        lambda: document(
            "cache-gc",
            {"dry_run": True, "max_gib": limit_gib, "remove": [{**plain(f), "why": why} for f, why in garbage]},
        ),
    )


def choose_garbage(folders: Sequence[CacheFolder], limit_bytes: int) -> tuple[tuple[CacheFolder, str], ...]:
    """Return the folders to remove, each with the reason; limit_bytes 0: no budget.

    1. The last used folder and the last used complete one stay, whatever the budget.
    2. Incomplete folders that a later boot has replaced go: they hold no state worth a boot.
    3. Over budget, the longest unused go first.
    """
    by_use = sorted(folders, key=lambda f: (f.last_used_unix_s or 0.0, f.key), reverse=True)
    keep = {f.key for f in (by_use[:1] + [f for f in by_use if f.complete][:1])}
    chosen = {f.key: "no boot with it reached ready" for f in by_use if not f.complete and f.key not in keep}
    total = sum(f.size_bytes for f in by_use if f.key not in chosen)
    for folder in reversed(by_use):
        if not limit_bytes or total <= limit_bytes:
            break
        if folder.key not in keep and folder.key not in chosen:
            chosen[folder.key] = "over the budget, longest unused"
            total -= folder.size_bytes
    return tuple((f, chosen[f.key]) for f in sorted(folders, key=lambda f: f.key) if f.key in chosen)


def _budget_gib(asked: Asked, node: Node) -> int:
    named = asked.name or node.config.profile
    return open_profile(asked, node).cache.max_gib if named else 0
