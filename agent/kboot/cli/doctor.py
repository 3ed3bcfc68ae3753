"""`kboot doctor`: what is wrong with this node?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from kboot.cli.edge import Finished
from kboot.cli.options import (
    Asked,
    Command,
    Common,
    common_options,
    open_node,
    open_profile,
    painter,
    profile_options,
    show,
)
from kboot.errors import ExitStatus

if TYPE_CHECKING:
    from kboot.checks.types import Mode

_MODES = ("quick", "full", "bake", "deep")


@click.command(
    "doctor",
    cls=Command,
    examples=(
        ("kboot doctor", "the questions that take under two seconds"),
        ("kboot doctor --profile demo --check 'gpu.*' -v", "some checks only, with their sources"),
        ("kboot doctor --skip limits.nofile --bundle node.tar.gz", "evidence for a ticket"),
    ),
    statuses=(
        (ExitStatus.DONE, "nothing is wrong"),
        (ExitStatus.USAGE, "there is no such check in this mode"),
        (ExitStatus.DEGRADED, "warnings, or something could not be read"),
        (ExitStatus.DOCTOR_FAILED, "boot would not work"),
        (ExitStatus.PROFILE, "the profile or configuration is not valid"),
    ),
)
@click.option("--mode", type=click.Choice(_MODES), default="quick", show_default=True, help="How long it may take.")
@click.option("--check", "only", metavar="ID", multiple=True, help="Ask this check only, or a pattern of ids.")
@click.option("--skip", metavar="ID", multiple=True, help="Leave this check out, or a pattern of ids.")
@click.option(
    "--bundle",
    "bundle_file",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write findings and facts to FILE (.tar.gz), without secrets, addresses and host names.",
)
@profile_options
@common_options
def command(
    common: Common, asked: Asked, mode: Mode, only: tuple[str, ...], skip: tuple[str, ...], bundle_file: Path | None
) -> None:
    """Say what is wrong with this node, with evidence and fix; changes nothing and uses no network."""
    from kboot.cli.watch import watch
    from kboot.doctor import bundle, run_doctor, summary, to_json
    from kboot.host.files import atomic_write
    from kboot.report.text_doctor import doctor_text

    node = open_node(common)
    profile = open_profile(asked, node) if asked.name or node.config.profile else None
    name = profile.name if profile else ""
    with watch(common, node, name, save=None, quiet=True) as seen:
        report = run_doctor(node.host, node.paths, profile, mode, only, seen.emit, skip=skip)
    pairs = [(answer.check, answer.finding) for answer in report.findings]
    show(
        common,
        lambda: doctor_text(pairs, summary(report), verbose=common.verbose, paint=painter(node)),
        lambda: to_json(report),
    )
    if bundle_file is not None:
        text = doctor_text(pairs, summary(report), verbose=True)
        atomic_write(bundle_file.absolute(), bundle(report, text), 0o600)
        click.echo(f"evidence: {bundle_file}", err=True)
    if report.exit_status != ExitStatus.DONE:
        raise Finished(report.exit_status)
