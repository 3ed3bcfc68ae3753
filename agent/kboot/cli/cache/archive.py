"""`kboot cache export` and `import`: how do kernel caches travel to another node?"""

from __future__ import annotations

import click

from kboot.cli.options import Command, Common, common_options, not_in_this_version
from kboot.errors import ExitStatus

_LATER = ((ExitStatus.USAGE, "always: not in this version"),)
_ANY_WORDS = click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="[...]")


@click.command(
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


@click.command(
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
