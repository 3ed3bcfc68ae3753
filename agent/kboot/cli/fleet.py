"""`kboot fleet`: how do the nodes stand that serve the same model?"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from kboot.cli.edge import Finished
from kboot.cli.options import (
    Asked,
    AtLeast,
    Command,
    Common,
    Node,
    open_node,
    open_profile,
    own_machine_options,
    painter,
    profile_options,
    show,
)
from kboot.errors import ExitStatus, FactMissing, NotReady, UsageError

if TYPE_CHECKING:
    from kboot.apply.fleet_meeting import Ask
    from kboot.apply.fleet_state import Stage
    from kboot.apply.fleet_survey import Survey
    from kboot.facts.fleet_types import FleetFacts
    from kboot.profile.types import Profile

_LOOK_S = 1.0
_STAGES = ("preparing", "ready", "started")
_STATUSES = (
    (ExitStatus.USAGE, "the profile has no [fleet], or --root: a recorded machine has no network"),
    (ExitStatus.PROFILE, "the profile or configuration is not valid"),
    (ExitStatus.FACT_MISSING, "the nodes of the fleet could not be found"),
    (ExitStatus.ACTION_FAILED, "the fleet's key cannot be used"),
)


@click.group("fleet")
def command() -> None:
    """Look at the nodes that serve the same model; `kboot boot` on each of them starts them together."""


@command.command(
    "status",
    cls=Command,
    short_help="Show every node of the fleet.",
    examples=(
        ("kboot fleet status --profile kimi-k3", "a line for each node: stage, commit, bytes, verdict"),
        ("kboot fleet status --json", "the same for a program"),
    ),
    statuses=(
        (ExitStatus.DONE, "every node answers, and none differs"),
        (ExitStatus.DEGRADED, "a node does not answer, has failed, or differs"),
        *_STATUSES,
    ),
)
@profile_options
@own_machine_options
def status_command(common: Common, asked: Asked) -> None:
    """Ask every node of the fleet how it stands, and compare what they state; changes nothing."""
    node, profile, fleet, ask = _open(common, asked)
    from kboot.apply.fleet_survey import survey

    seen = survey(fleet, ask)
    _show(common, node, profile, seen)
    if not seen.whole:
        raise Finished(ExitStatus.DEGRADED)


@command.command(
    "wait",
    cls=Command,
    short_help="Wait until every node of the fleet is ready.",
    examples=(
        ("kboot fleet wait --profile kimi-k3", "until every node has started its part of the engine"),
        ("kboot fleet wait --stage ready --timeout 3600", "until every node is prepared, for an hour at most"),
    ),
    statuses=(
        (ExitStatus.DONE, "every node is in that stage, or further"),
        *_STATUSES,
        (ExitStatus.NOT_READY, "not every node was, when the time was over"),
        (ExitStatus.INTERRUPTED, "interrupted"),
    ),
)
@click.option("--stage", type=click.Choice(_STAGES), default="started", show_default=True, help="What is waited for.")
@click.option(
    "--timeout",
    "timeout_s",
    type=AtLeast(0, float),
    default=600,
    metavar="S",
    show_default=True,
    help="Seconds to wait at most.",
)
@profile_options
@own_machine_options
def wait_command(common: Common, asked: Asked, stage: Stage, timeout_s: float) -> None:
    """Wait until every node of the fleet is in a stage, and show them; changes nothing."""
    node, profile, fleet, ask = _open(common, asked)
    from kboot.apply.fleet_survey import survey
    from kboot.cli.watch import stop_on_signals
    from kboot.host.clock import monotonic_s

    stop, deadline_s = stop_on_signals(), monotonic_s() + timeout_s
    while (seen := survey(fleet, ask)).behind(stage):
        left_s = deadline_s - monotonic_s()
        if left_s <= 0:
            raise _late(seen, stage, timeout_s)
        if stop.wait(min(_LOOK_S, left_s)):
            click.echo("kboot: interrupted", err=True)
            raise Finished(ExitStatus.INTERRUPTED)
    _show(common, node, profile, seen)


def _open(common: Common, asked: Asked) -> tuple[Node, Profile, FleetFacts, Ask]:
    """Return what a look at the fleet needs.

    Raises:
        UsageError: no-fleet. FactMissing: fleet-unknown. ActionFailed: the key cannot be used.
    """
    from pathlib import Path

    node = open_node(common)
    profile = open_profile(asked, node)
    if profile.fleet.discovery == "none":
        raise UsageError(
            "no-fleet",
            f"profile {profile.name} names no other nodes",
            hint="add [fleet] with `discovery` in a drop-in; docs/fleet.md shows how",
        )
    if not node.host.live:
        raise UsageError("recorded-machine", "a recorded machine has no network to ask other nodes on")
    from kboot.apply.fleet_ask import asker
    from kboot.facts.fleet import collect_fleet
    from kboot.sources.fleet_auth import read_key

    fleet, gaps = collect_fleet(node.host, profile.fleet)
    if not fleet.nodes:
        where = tuple(f"{gap.source}: {gap.reason}" for gap in gaps)
        raise FactMissing(
            "fleet-unknown", f"the nodes of the fleet could not be found by {fleet.found_by}", where=where
        )
    return node, profile, fleet, asker(read_key(Path(profile.fleet.key_file)))


def _show(common: Common, node: Node, profile: Profile, seen: Survey) -> None:
    from kboot.apply.fleet_survey import survey_body
    from kboot.report.document import document
    from kboot.report.text_fleet import fleet_text

    doc = document("fleet", survey_body(profile.name, seen))
    show(common, lambda: fleet_text(doc, paint=painter(node)), lambda: doc)


def _late(seen: Survey, stage: Stage, timeout_s: float) -> NotReady:
    from kboot.apply.fleet_survey import node_body

    nodes = [node_body(view, seen.found) for view in seen.behind(stage)]
    named = [f"{n['name']}: {', '.join(str(n[key]) for key in ('stage', 'verdict') if n[key])}" for n in nodes]
    return NotReady(
        "fleet-not-together",
        f"{len(named)} of {len(seen.views)} nodes were not {stage} after {timeout_s:g} s",
        where=tuple(named[:16]),
        hint="`kboot fleet status` shows every node",
    )
