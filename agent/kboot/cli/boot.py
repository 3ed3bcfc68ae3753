"""`kboot boot`: the whole job."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from kboot.cli.options import Asked, AtLeast, Command, Common, open_node, own_machine_options, profile_options
from kboot.cli.running import RUN_STATUSES, run_boot
from kboot.errors import ExitStatus, UsageError

if TYPE_CHECKING:
    from kboot.plan.types import PhaseName

# Written out, not imported: the plan's types are not needed to print a help text. A test compares them.
PHASE_NAMES = ("tune", "cache", "fetch", "verify", "publish", "warm", "handoff", "serve")


@click.command(
    "boot",
    cls=Command,
    examples=(
        ("kboot boot --profile demo --dry-run", "what would change on this node, and why"),
        ("kboot boot --profile demo --serve", "prepare the node and serve until interrupted"),
    ),
    statuses=(*RUN_STATUSES, (ExitStatus.NOT_READY, "the engine did not answer in time, or died")),
)
@click.option("--dry-run", is_flag=True, help="Show the plan and stop there.")
@click.option("--serve", is_flag=True, help="Start the engine and stay in the foreground while it serves.")
@click.option("--exit-when-ready", is_flag=True, help="With --serve: stop the engine once it has answered.")
@click.option("--standby", is_flag=True, help="With --serve: hold when all is warm, until `kboot live` is said.")
@click.option("--offline", is_flag=True, help="Ask no source; what is on this disk must do.")
@click.option(
    "--skip",
    type=click.Choice(PHASE_NAMES),
    metavar="PHASE",
    multiple=True,
    help=f"Leave a phase out; may be repeated. Phases: {', '.join(PHASE_NAMES)}.",
)
@click.option(
    "--only",
    type=click.Choice(PHASE_NAMES),
    metavar="PHASE",
    multiple=True,
    help="Do this phase only; may be repeated.",
)
@click.option(
    "--node-rank",
    type=AtLeast(0),
    metavar="N",
    help="This node's place in the layout; without it as [fleet] has it, else 0.",
)
@click.option("--head-address", metavar="HOST", help="Where node 0 of the layout is; without it as [fleet] has it.")
@profile_options
@own_machine_options
def command(
    common: Common,
    asked: Asked,
    dry_run: bool,
    serve: bool,
    exit_when_ready: bool,
    standby: bool,
    offline: bool,
    skip: tuple[PhaseName, ...],
    only: tuple[PhaseName, ...],
    node_rank: int | None,
    head_address: str | None,
) -> None:
    """Tune this node, fetch, verify and warm the checkpoint, and write the hand-off record."""
    if exit_when_ready and not serve:
        raise UsageError("usage", "--exit-when-ready is about the engine: give --serve as well")
    if standby and not serve:
        raise UsageError("usage", "--standby is about the engine: give --serve as well")
    if serve and not dry_run:
        _leave_init_behind()
    from kboot.options import BootOptions

    options = BootOptions(
        serve=serve,
        exit_when_ready=exit_when_ready,
        standby=standby,
        offline=offline,
        skip=frozenset(skip),
        only=frozenset(only),
        node_rank=node_rank,
        head_address=head_address,
    )
    if dry_run:
        from kboot.cli.plan import make, show_plan

        node = open_node(common)
        show_plan(common, node, make(common, asked, node, options))
        return
    run_boot(common, asked, options, "boot")


def _leave_init_behind() -> None:
    """Do the work in a child where this is the first process of a container, which has duties of its own.

    Raises:
        SystemExit: in the first process, when the work has ended.
    """
    from kboot.host.init import split_off_init

    status = split_off_init()
    if status is not None:
        sys.exit(status)
