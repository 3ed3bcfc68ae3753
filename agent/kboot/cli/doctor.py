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
    NewPath,
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
from kboot.values import dataclass

if TYPE_CHECKING:
    from kboot.checks.types import Mode
    from kboot.doctor import DoctorReport
    from kboot.report.examinations import Since

_MODES = ("quick", "full", "bake", "deep")
_SHORT = ("quick", "bake")


@dataclass(frozen=True, slots=True)
class _Options:
    """What is asked of one run beside the profile."""

    mode: Mode
    only: tuple[str, ...]
    skip: tuple[str, ...]
    since: str
    bundle: Path | None


@click.command(
    "doctor",
    cls=Command,
    examples=(
        ("kboot doctor", "the questions that take under two seconds"),
        ("kboot doctor --profile demo --check 'gpu.*' -v", "some checks only, with their sources"),
        ("kboot doctor --mode deep --list", "what that mode asks"),
        ("kboot doctor --since -1", "only what was not so at the boot before"),
        ("kboot doctor --fix", "show what doctor may change by itself, and ask"),
        ("kboot doctor --skip limits.nofile --bundle node.tar.gz", "evidence for a ticket"),
    ),
    statuses=(
        (ExitStatus.DONE, "nothing is wrong"),
        (ExitStatus.USAGE, "there is no such check in this mode, or no such boot"),
        (ExitStatus.DEGRADED, "warnings, or something could not be read"),
        (ExitStatus.DOCTOR_FAILED, "boot would not work"),
        (ExitStatus.PROFILE, "the profile or configuration is not valid"),
        (ExitStatus.ACTION_FAILED, "--bundle: the file cannot be written"),
    ),
)
@click.option(
    "--mode",
    type=click.Choice(_MODES),
    default="quick",
    show_default=True,
    help="quick: 2 s; full: a minute; deep: minutes; bake: a host that makes images.",
)
@click.option("--list", "listing", is_flag=True, help="Show what this mode asks, and ask nothing; -v: and where.")
@click.option(
    "--check",
    "only",
    metavar="ID",
    multiple=True,
    shell_complete=completing("check"),
    help="Ask this check only, or a pattern of ids.",
)
@click.option(
    "--skip",
    metavar="ID",
    multiple=True,
    shell_complete=completing("check"),
    help="Leave this check out, or a pattern of ids.",
)
@click.option(
    "--since",
    metavar="BOOT",
    shell_complete=completing("boot"),
    default="",
    help="Show only what is new since doctor last ran at that boot: -1 is the machine's boot before this one; or a "
    "number in `kboot timeline --list`, the start of a time there or of a boot id; or a file that --json printed.",
)
@click.option("--fix", is_flag=True, help="Then change what is safe and can be undone: shown first, and asked.")
@click.option("--yes", is_flag=True, help="With --fix: do not ask.")
@click.option(
    "--bundle",
    "bundle_file",
    metavar="FILE",
    type=NewPath(dir_okay=False, path_type=Path),
    help="Write findings and facts to FILE (.tar.gz), without secrets, addresses and host names.",
)
@profile_options
@common_options
def command(
    common: Common,
    asked: Asked,
    mode: Mode,
    listing: bool,
    only: tuple[str, ...],
    skip: tuple[str, ...],
    since: str,
    fix: bool,
    yes: bool,
    bundle_file: Path | None,
) -> None:
    """Say what is wrong with this node, with evidence and fix; changes nothing unless --fix is given.

    Settings such as HF_ENDPOINT are read from this process and from kboot's environment files; with --root from those
    files alone, since no environment is recorded.

    Modes quick and bake use no network. Mode full asks the checkpoint's sources for a MiB and copies to GPUs that no
    process works on; mode deep also runs dcgmi and nccl-tests where they are installed.
    """
    if yes and not fix:
        raise click.UsageError("--yes answers what --fix asks; it means nothing without it")
    if listing:
        _list(common, mode, only, skip)
        return
    options = _Options(mode, only, skip, since, bundle_file)
    node = open_node(common)
    report, news = _examine(common, asked, node, options)
    if fix:
        from kboot.cli.fixing import fix_findings

        if not common.json:
            _show(common, node, options, report, news)
        fixed = fix_findings(report, node, yes=yes)
        if fixed.done:
            report, news = _examine(common, asked, node, options)
        show(common, lambda: fixed.text, lambda: _document(report, news) | {"fixed": fixed.document})
    else:
        _show(common, node, options, report, news)
    if report.exit_status != ExitStatus.DONE:
        raise Finished(report.exit_status)


def _list(common: Common, mode: Mode, only: tuple[str, ...], skip: tuple[str, ...]) -> None:
    from kboot.doctor import checks_to_json, select_checks
    from kboot.report.text_doctor import checks_text

    checks = select_checks(mode, only, skip)
    show(common, lambda: checks_text(checks, verbose=common.verbose), lambda: checks_to_json(checks, mode))


def _examine(common: Common, asked: Asked, node: Node, options: _Options) -> tuple[DoctorReport, Since | None]:
    """Run doctor, and keep what it found; with --since only what is new is returned."""
    from dataclasses import replace

    from kboot.cli.watch import watch
    from kboot.doctor import run_doctor
    from kboot.report.examinations import compare, find_examination

    profile = open_profile(asked, node) if asked.name or node.config.profile else None
    name = profile.name if profile else ""
    with watch(common, node, name, save=None, quiet=options.mode in _SHORT, logged=False) as seen:
        report = run_doctor(
            *(node.host, node.paths, profile, options.mode, options.only, seen.emit),
            skip=options.skip,
            config=node.config,
        )
    boot_id = report.facts.os.boot_id if report.facts else ""
    then = find_examination(node.paths, options.since, boot_id) if options.since else None
    if not options.only and not options.skip:
        _keep(node, boot_id, report)
    if then is None:
        return report, None
    news = compare(then, {a.check.id: a.finding for a in report.findings})
    return replace(report, findings=tuple(a for a in report.findings if a.check.id in news.news)), news


def _keep(node: Node, boot_id: str, report: DoctorReport) -> None:
    """Keep the run for --since, where kboot has a state folder that this user may write; else it is not kept."""
    from contextlib import suppress

    from kboot.doctor import to_json
    from kboot.errors import KbootError
    from kboot.report.examinations import keep_examination

    with suppress(KbootError, OSError):
        if node.host.live and node.paths.state.is_dir():
            keep_examination(node.paths, boot_id, to_json(report))


def _show(common: Common, node: Node, options: _Options, report: DoctorReport, news: Since | None) -> None:
    from kboot.doctor import bundle, summary
    from kboot.host.files import atomic_write
    from kboot.report.text_doctor import doctor_text

    pairs = [(answer.check, answer.finding) for answer in report.findings]
    before = news.news if news else {}
    line = summary(report, news)
    show(
        common,
        lambda: doctor_text(pairs, line, verbose=common.verbose, paint=painter(node), before=before),
        lambda: _document(report, news),
    )
    if options.bundle is not None:
        text = doctor_text(pairs, line, verbose=True, before=before)
        atomic_write(options.bundle.absolute(), bundle(report, text), 0o600)
        click.echo(f"evidence: {options.bundle}", err=True)


def _document(report: DoctorReport, news: Since | None) -> dict[str, object]:
    from kboot.doctor import to_json

    return to_json(report, news)
