"""`kboot bake`: not in this version."""

from __future__ import annotations

import click

from kboot.cli.options import Command, Common, common_options, not_in_this_version
from kboot.errors import ExitStatus


@click.command(
    "bake",
    cls=Command,
    context_settings={"ignore_unknown_options": True},
    examples=(("kboot bake --help", "this text"), ("kboot doctor --mode bake", "look at an image host")),
    statuses=((ExitStatus.USAGE, "always: not in this version"),),
)
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="[...]")
@common_options
def command(common: Common, words: tuple[str, ...]) -> None:  # noqa: ARG001  (taken so that any line gets the answer)
    """Prepare an image, no GPU needed: not in this version."""
    raise not_in_this_version("kboot bake", "`kboot doctor --mode bake` looks at a host that prepares images")
