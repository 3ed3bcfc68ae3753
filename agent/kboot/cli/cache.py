"""`kboot cache`: which kernel caches are kept on this node, and what would be let go?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

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

if TYPE_CHECKING:
    from kboot.report.types import BootReport

_GIB = 1 << 30
_LATER = ((ExitStatus.USAGE, "always: not in this version"),)
_SHOWN = (
    (ExitStatus.DONE, "shown"),
    (ExitStatus.USAGE, "what is asked for is not in this version"),
    (ExitStatus.PROFILE, "the profile or configuration is not valid"),
)
_ANY_WORDS = click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="[...]")


@dataclass(frozen=True, slots=True)
class CacheFolder:
    """One folder of kernel caches. last_used_unix_s: start of the last boot with this key; None when not on record."""

    key: str
    factors: Mapping[str, str]
    complete: bool
    size_bytes: int
    files: int
    last_used_unix_s: float | None


@click.group("cache")
def command() -> None:
    """Look after the kernel-tuning and JIT caches of this node."""


@command.command(
    "status",
    cls=Command,
    short_help="Show every cache folder.",
    examples=(
        ("kboot cache status", "every folder with size, factors and last use"),
        ("kboot cache status --json", "for a program"),
    ),
    statuses=_SHOWN[::2],
)
@common_options
def status_command(common: Common) -> None:
    """Show every cache folder: key, size, whether a boot with it reached ready, last use."""
    from kboot.report.document import document, plain

    node = open_node(common)
    folders = find_folders(node)
    show(
        common,
        lambda: _status_text(folders, node, verbose=common.verbose),
        lambda: document("cache-status", {"path": str(node.paths.cache), "folders": plain(folders)}),
    )


@command.command(
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


@command.command(
    "explain",
    cls=Command,
    short_help="Not in this version.",
    context_settings={"ignore_unknown_options": True},
    examples=(("kboot cache explain --help", "this text"), ("kboot plan", "says which factor made a new key")),
    statuses=_LATER,
)
@_ANY_WORDS
@common_options
def explain_command(common: Common, words: tuple[str, ...]) -> None:  # noqa: ARG001
    """Name the factor that changed the cache's key: not in this version."""
    raise not_in_this_version("kboot cache explain", "`kboot plan` names the factor that makes a new key")


@command.command(
    "export",
    cls=Command,
    short_help="Not in this version.",
    context_settings={"ignore_unknown_options": True},
    examples=(("kboot cache export --help", "this text"), ("kboot cache status", "what is there")),
    statuses=_LATER,
)
@_ANY_WORDS
@common_options
def export_command(common: Common, words: tuple[str, ...]) -> None:  # noqa: ARG001
    """Write a cache folder to an archive: not in this version."""
    raise not_in_this_version("kboot cache export", "copy the folder that `kboot cache status` names, with its times")


@command.command(
    "import",
    cls=Command,
    short_help="Not in this version.",
    context_settings={"ignore_unknown_options": True},
    examples=(("kboot cache import --help", "this text"), ("kboot cache status", "what is there")),
    statuses=_LATER,
)
@_ANY_WORDS
@common_options
def import_command(common: Common, words: tuple[str, ...]) -> None:  # noqa: ARG001
    """Read a cache folder from an archive: not in this version."""
    raise not_in_this_version(
        "kboot cache import", "copy a folder below the path that `kboot cache status` names, with its times"
    )


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


def _status_text(folders: Sequence[CacheFolder], node: Node, *, verbose: bool) -> str:
    from kboot.report.render_text import join, table
    from kboot.report.units import show_bytes, show_time

    if not folders:
        return f"no kernel cache below {node.paths.cache} yet; `kboot boot` makes one"
    lines: list[str] = []
    for folder in folders:
        used = "not on record" if folder.last_used_unix_s is None else show_time(folder.last_used_unix_s)
        state = "complete" if folder.complete else "not complete: no boot with it reached ready"
        lines.append(folder.key)
        lines += table(
            [("size", f"{show_bytes(folder.size_bytes)} in {folder.files:,} files, {state}"), ("used", used)]
        )
        if verbose:
            lines += table(sorted(folder.factors.items()), 4)
    return join(lines)
