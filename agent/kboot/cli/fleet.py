"""`kboot fleet`: not in this version."""

from __future__ import annotations

import click

from kboot.cli.options import Command, Common, common_options, not_in_this_version
from kboot.errors import ExitStatus


@click.command(
    "fleet",
    cls=Command,
    context_settings={"ignore_unknown_options": True},
    examples=(
        ("kboot fleet --help", "this text"),
        ("kboot boot --node-rank 1 --head-address head", "boot one node of several"),
    ),
    statuses=((ExitStatus.USAGE, "always: not in this version"),),
)
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="[...]")
@common_options
def command(common: Common, words: tuple[str, ...]) -> None:  # noqa: ARG001  (taken so that any line gets the answer)
    """Boot many nodes together: not in this version."""
    raise not_in_this_version("kboot fleet", "boot each node with `kboot boot --node-rank N --head-address HOST`")
