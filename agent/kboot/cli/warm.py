"""`kboot warm`: the checkpoint alone."""

from __future__ import annotations

import click

from kboot.cli.options import Asked, Command, Common, own_machine_options, profile_options
from kboot.cli.running import RUN_STATUSES, run_boot


@click.command(
    "warm",
    cls=Command,
    examples=(
        ("kboot warm --profile demo", "read what is not in memory yet"),
        ("kboot warm --profile demo --json", "the same for a program"),
    ),
    statuses=RUN_STATUSES,
)
@click.option("--offline", is_flag=True, help="Ask no source; what is on this disk must do.")
@profile_options
@own_machine_options
def command(common: Common, asked: Asked, offline: bool) -> None:
    """Read what is not resident of the checkpoint into the page cache."""
    from kboot.options import BootOptions

    run_boot(common, asked, BootOptions(offline=offline, only=frozenset({"warm"})), "warm")
