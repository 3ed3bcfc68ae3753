"""`kboot cache export` and `import`: how do kernel caches travel to another node?"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kboot.cli.options import (
    Command,
    Common,
    Node,
    common_options,
    completing,
    need_this_machine,
    open_node,
    own_machine_options,
    say_beside,
    show,
)
from kboot.errors import ExitStatus, FactMissing, UsageError

if TYPE_CHECKING:
    from kboot.apply.cache_export import Exported
    from kboot.apply.cache_import import Imported
    from kboot.store.cache_archive import ArchiveList

_FILE = click.Path(dir_okay=False, allow_dash=True)
_DASH = "-"  # a file of that name is ./-
_PIPE = "`kboot cache export - | ssh NODE kboot cache import -`, or name a file"
_EXPORTED = (
    (ExitStatus.DONE, "the archive is there, whole and durable"),
    (ExitStatus.USAGE, "standard output is a terminal"),
    (ExitStatus.PROFILE, "the configuration is not valid"),
    (ExitStatus.FACT_MISSING, "this node has no kernel cache"),
    (ExitStatus.ACTION_FAILED, "the cache is not complete, changed meanwhile, or the disk says no"),
    (ExitStatus.DOES_NOT_FIT, "the disk is full"),
)
_IMPORTED = (
    (ExitStatus.DONE, "the cache is there, whole and durable"),
    (ExitStatus.USAGE, "--root: another machine than this one is meant; standard input is a terminal"),
    (ExitStatus.PROFILE, "the configuration is not valid"),
    (ExitStatus.ACTION_FAILED, "it does not fit this node, is damaged, or one like it is here"),
    (ExitStatus.DOES_NOT_FIT, "the disk has no room for it"),
)


@click.command(
    "export",
    cls=Command,
    short_help="Write a cache to an archive.",
    examples=(
        ("kboot cache export cache.tar.zst", "the cache used last, for nodes like this one"),
        ("kboot cache export cache.tar.zst --key K", "another one"),
        ("kboot cache export -", "to a pipe: `| ssh NODE kboot cache import -`"),
    ),
    statuses=_EXPORTED,
)
@click.argument("file", type=_FILE)
@click.option(
    "--key",
    metavar="K",
    shell_complete=completing("cache"),
    help="Which cache of `kboot cache status`; without it the complete one used last.",
)
@click.option("--incomplete", is_flag=True, help="Also one with which no engine has reached ready yet.")
@common_options
def export_command(common: Common, file: str, key: str | None, incomplete: bool) -> None:
    """Write a folder of kernel caches to one archive: tar and zstd, with the SHA-256 of every file.

    FILE - is standard output; what is said of the archive goes to stderr then.
    """
    from kboot.apply.cache_export import export_cache
    from kboot.cli.watch import draw_progress
    from kboot.report.document import document, plain

    piped = file == _DASH
    if piped and sys.stdout.isatty():
        raise UsageError("terminal", "an archive is bytes, and standard output is a terminal", hint=_PIPE)
    node = open_node(common)
    chosen = key or _last_key(node, incomplete)
    cpus = len(node.host.affinity()) if node.host.live else 1
    target = None if piped else Path(file)
    with draw_progress(common, node) as emit:
        done = export_cache(node.paths.cache / chosen, target, cpus, incomplete=incomplete, emit=emit)
    show(common, lambda: _exported_text(done), lambda: document("cache-export", plain(done)), beside=piped)


@click.command(
    "import",
    cls=Command,
    short_help="Fill a cache from an archive.",
    examples=(
        ("kboot cache import cache.tar.zst", "refused, with the factor, if it was made for another node"),
        ("kboot cache import cache.tar.zst --replace", "put the one that is here aside"),
    ),
    statuses=_IMPORTED,
)
@click.argument("file", type=_FILE)
@click.option("--replace", is_flag=True, help="Also over a complete cache of the same key, which is kept aside.")
@own_machine_options
def import_command(common: Common, file: str, replace: bool) -> None:
    """Fill a folder of kernel caches from an archive: all of it, proven and durable, or nothing.

    FILE - is standard input.
    """
    from kboot.apply.cache_import import import_cache
    from kboot.cli.watch import draw_progress
    from kboot.host.stream import open_to_read, standard_input
    from kboot.report.document import document, plain

    if file == _DASH and sys.stdin.isatty():
        raise UsageError("terminal", "an archive is bytes, and standard input is a terminal", hint=_PIPE)
    node = open_node(common)
    need_this_machine(node.host, "kboot cache import")
    with standard_input() if file == _DASH else open_to_read(Path(file)) as stream, draw_progress(common, node) as emit:
        done = import_cache(stream, node.paths.cache, lambda found: _misfits(found, node), replace=replace, emit=emit)
    show(common, lambda: _imported_text(done), lambda: document("cache-import", plain(done)))


def _last_key(node: Node, incomplete: bool) -> str:
    """Return the key that was used last.

    Raises:
        FactMissing: there is none.
    """
    from kboot.cli.cache.folders import find_folders

    folders = [f for f in find_folders(node) if f.complete or incomplete]
    if not folders:
        raise FactMissing(
            "no-cache",
            "this node has no kernel cache that is complete",
            where=(str(node.paths.cache),),
            hint="`kboot cache status` shows what there is; --incomplete takes one that no engine reached ready with",
        )
    return max(folders, key=lambda f: (f.last_used_unix_s or 0.0, f.key)).key


def _misfits(found: ArchiveList, node: Node) -> tuple[str, ...]:
    """Return what of an archive is not this node's: GPUs, driver, engine, packages; not the model, which may be new."""
    from kboot.engines.common import node_factors
    from kboot.facts.collect import NvmlAsk, collect
    from kboot.plan.cache import misfits

    engine = found.factors.get("engine", "")
    facts = collect(node.host, node.paths, engine or None, ask=NvmlAsk(say=say_beside))
    return misfits(found.factors, node_factors(facts, engine))


def _exported_text(done: Exported) -> str:
    from kboot.checks.words import count
    from kboot.quantities import show_bytes, show_seconds
    from kboot.report.render_text import join, table

    state = "" if done.complete else ", not complete"
    rows = [
        ("key", done.key),
        ("holds", f"{count(done.files, 'file')}, {show_bytes(done.size_bytes)}{state}"),
        ("archive", f"{show_bytes(done.archive_bytes)} in {show_seconds(done.seconds)}"),
        *(("left out", f"{files:,}: {why}") for why, files in done.left_out.items()),
    ]
    return join([done.path, *table(rows)])


def _imported_text(done: Imported) -> str:
    from kboot.checks.words import count
    from kboot.quantities import show_bytes, show_seconds
    from kboot.report.render_text import join, wrap

    state = "complete" if done.complete else "not complete: no engine has reached ready with it"
    label = f"  {{:<{len('put aside' if done.replaced else 'holds')}}}  "
    lines = wrap(f"{count(done.files, 'file')}, {show_bytes(done.size_bytes)}, {state}", label.format("holds"))
    lines += wrap(show_seconds(done.seconds), label.format("took"))
    if done.replaced:
        lines += wrap(done.replaced, label.format("put aside"), whole=True)  # a path is to be copied
    return join([done.path, *lines])
