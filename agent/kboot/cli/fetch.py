"""`kboot fetch`: the checkpoint alone."""

from __future__ import annotations

import click

from kboot.cli.options import Asked, Command, Common, own_machine_options, profile_options
from kboot.cli.running import RUN_STATUSES, run_boot


@click.command(
    "fetch",
    cls=Command,
    examples=(
        ("kboot fetch --profile demo", "fetch, resuming what an earlier run began"),
        ("kboot fetch --profile demo --set fetch.max_rate_mib_s=100", "at most 100 MiB a second"),
    ),
    statuses=RUN_STATUSES,
)
@click.option("--offline", is_flag=True, help="Ask no source; what is on this disk must do.")
@profile_options
@own_machine_options
def command(common: Common, asked: Asked, offline: bool) -> None:
    """Fetch what is missing of the checkpoint, verified as it lands, and publish it."""
    from kboot.options import BootOptions

    run_boot(common, asked, BootOptions(offline=offline, only=frozenset({"fetch", "verify", "publish"})), "fetch")
