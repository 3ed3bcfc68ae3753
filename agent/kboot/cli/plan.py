"""`kboot plan`: what would boot do on this node, and why?"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import click

from kboot.cli.options import (
    Asked,
    AtLeast,
    Command,
    Common,
    Node,
    common_options,
    completing,
    open_node,
    open_profile,
    painter,
    profile_options,
    show,
)
from kboot.errors import ExitStatus

if TYPE_CHECKING:
    from kboot.options import BootOptions
    from kboot.plan.types import Plan

PLAN_STATUSES = (
    (ExitStatus.USAGE, "--gpu or --nodes: the profile has no such layout"),
    (ExitStatus.PROFILE, "the profile or configuration is not valid"),
    (ExitStatus.FACT_MISSING, "a fact that the plan needs could not be read"),
    (ExitStatus.DOES_NOT_FIT, "GPUs are missing, or GPU memory, RAM or disk is too small"),
    (ExitStatus.LICENSE, "the model's terms are not accepted"),
    (ExitStatus.SOURCE, "the listing cannot be had from any source"),
)


@click.command(
    "plan",
    cls=Command,
    examples=(
        ("kboot plan --profile demo", "every change boot would make, with its reason"),
        ("kboot plan --profile demo -v --json", "the same for a program"),
        ("kboot plan --profile kimi-k3 --nodes 4 --rank 2", "the command line of the third of four nodes"),
    ),
    statuses=((ExitStatus.DONE, "shown, also when there is nothing to do"), *PLAN_STATUSES),
)
@click.option("--serve", is_flag=True, help="Plan the start of the engine as well.")
@click.option("--offline", is_flag=True, help="Ask no source; what is on this disk must do.")
@click.option(
    "--gpu", metavar="CLASS", shell_complete=completing("gpu"), help="Only a layout for this class of GPU, e.g. B300."
)
@click.option("--nodes", type=AtLeast(1), metavar="N", help="Only a layout of so many nodes.")
@click.option(
    "--node-rank",
    "--rank",
    type=AtLeast(0),
    metavar="N",
    help="This node's place in the layout; without it as [fleet] has it, else 0.",
)
@click.option("--head-address", metavar="HOST", help="Where node 0 of the layout is; without it as [fleet] has it.")
@profile_options
@common_options
def command(
    common: Common,
    asked: Asked,
    serve: bool,
    offline: bool,
    gpu: str | None,
    nodes: int | None,
    node_rank: int | None,
    head_address: str | None,
) -> None:
    """Show what boot would do on this node, each change with its reason; changes nothing."""
    from kboot.options import BootOptions

    node = open_node(common)
    options = BootOptions(
        serve=serve, offline=offline, gpu=gpu, nodes=nodes, node_rank=node_rank, head_address=head_address
    )
    show_plan(common, node, make(common, asked, node, options))


def make(common: Common, asked: Asked, node: Node, options: BootOptions) -> Plan:
    """Return the plan of this node, by boot's own code."""
    from kboot.cli.watch import watch
    from kboot.job import prepare

    profile = open_profile(asked, node)
    with watch(common, node, profile.name, save=None, quiet=True) as seen:
        options = replace(options, token_file=node.config.token_file)
        return prepare(profile, node.host, node.paths, options, seen.emit).plan


def show_plan(common: Common, node: Node, plan: Plan) -> None:
    """Print a plan."""
    from kboot.report.plan_json import plan_document
    from kboot.report.text_plan import plan_text

    show(
        common,
        lambda: plan_text(plan, verbose=common.verbose, paint=painter(node)),
        lambda: plan_document(plan),
    )
