"""`kboot cache status`: which kernel caches are kept on this node?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from kboot.cli.cache.folders import find_folders
from kboot.cli.options import Command, Common, Node, common_options, open_node, show
from kboot.errors import ExitStatus

if TYPE_CHECKING:
    from kboot.plan.cache_garbage import CacheFolder


@click.command(
    "status",
    cls=Command,
    short_help="Show every cache folder.",
    examples=(
        ("kboot cache status", "every folder with size, factors and last use"),
        ("kboot cache status --json", "for a program"),
    ),
    statuses=(
        (ExitStatus.DONE, "shown"),
        (ExitStatus.PROFILE, "the configuration is not valid"),
    ),
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


def _state(folder: CacheFolder) -> str:
    if folder.of_command:
        return "of a command line that `kboot exec` starts"
    return "complete" if folder.complete else "not complete: no boot with it reached ready"


def _status_text(folders: Sequence[CacheFolder], node: Node, *, verbose: bool) -> str:
    from kboot.checks.words import count
    from kboot.quantities import show_bytes, show_time
    from kboot.report.render_text import join, table

    if not folders:
        return f"no kernel cache below {node.paths.cache} yet; `kboot boot` makes one"
    lines: list[str] = []
    for folder in folders:
        used_unix_s = folder.made_unix_s if folder.of_command else folder.last_used_unix_s
        used = "not on record" if used_unix_s is None else show_time(used_unix_s)
        lines.append(folder.key)
        lines += table(
            [
                ("size", f"{show_bytes(folder.size_bytes)} in {count(folder.files, 'file')}, {_state(folder)}"),
                ("used", used),
            ]
        )
        if verbose:
            lines += table(sorted(folder.factors.items()), 4)
    return join(lines)
