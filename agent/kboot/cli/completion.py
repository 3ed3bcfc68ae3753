"""What may stand where the cursor is? Asked by the shell while a line is typed; loaded then alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from click.shell_completion import CompletionItem

from kboot.cli.options import Common, Node, open_node
from kboot.errors import KbootError
from kboot.quantities import show_time

if TYPE_CHECKING:
    import click

    from kboot.cli.options import Completed

_Found = Iterable[tuple[str, str]]
"""Values, each with a word about it for the shells that show one."""


def complete(what: Completed, ctx: click.Context, begun: str) -> list[CompletionItem]:
    """Return the values that begin so; where none does, files for what may be one. A node that cannot be read has none.

    ctx: with what was typed before, --root and --config among it.
    """
    try:
        node = open_node(Common(False, ctx.params.get("root"), ctx.params.get("config"), False))
        named = [each for each in _VALUES[what](node, ctx) if each[0].startswith(begun)]
    except (KbootError, OSError):
        named = []
    if not named and what == "profile":
        return [CompletionItem(begun, type="file")]
    return [CompletionItem(value, help=about) for value, about in named]


def _profiles(node: Node, _ctx: click.Context) -> _Found:
    from kboot.profile.load import list_profiles

    return ((p.name, p.title) for p in list_profiles(node.paths))


def _checks(_node: Node, ctx: click.Context) -> _Found:
    from kboot.checks.every import CHECKS

    return ((check.id, check.asks) for check in CHECKS if ctx.params.get("mode", "quick") in check.modes)


def _boots(node: Node, _ctx: click.Context) -> _Found:
    from kboot.report.saved import KEPT_BOOTS, load_reports

    reports = load_reports(node.paths, KEPT_BOOTS)
    return ((str(n), f"{show_time(r.started_unix_s)} {r.profile}") for n, r in enumerate(reports, 1))


def _caches(node: Node, _ctx: click.Context) -> _Found:
    from kboot.cli.cache.folders import find_folders

    return ((f.key, "complete" if f.complete else "not complete") for f in find_folders(node))


def _gpus(node: Node, _ctx: click.Context) -> _Found:
    from kboot.profile.load import load_node_classes

    return ((c.gpu, c.title) for c in load_node_classes(node.paths))


_VALUES: Mapping[Completed, Callable[[Node, click.Context], _Found]] = {
    "profile": _profiles,
    "check": _checks,
    "boot": _boots,
    "cache": _caches,
    "gpu": _gpus,
}
