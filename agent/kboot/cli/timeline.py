"""`kboot timeline`: where did the time of a boot go?"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kboot.cli.options import (
    AtLeast,
    Command,
    Common,
    NewPath,
    Node,
    common_options,
    completing,
    for_reader,
    open_node,
    painter,
)
from kboot.errors import ExitStatus, FactMissing

if TYPE_CHECKING:
    from kboot.report.price import HourPrice
    from kboot.report.timeline import Timeline
    from kboot.report.types import BootReport

_FORMATS = ("text", "json", "svg", "trace", "html")
_COMPARED = 20


@click.command(
    "timeline",
    cls=Command,
    examples=(
        ("kboot timeline", "the last boot, in text"),
        ("kboot timeline --list", "what is on record; --boot 2 shows the second"),
        ("kboot timeline --format html -o boot.html", "a page to open and to send on"),
    ),
    statuses=(
        (ExitStatus.DONE, "shown"),
        (ExitStatus.USAGE, "there is no such boot"),
        (ExitStatus.PROFILE, "the configuration file is not valid"),
        (ExitStatus.FACT_MISSING, "no boot is on record"),
        (ExitStatus.ACTION_FAILED, "the file cannot be written"),
    ),
)
@click.option("--format", "kind", type=click.Choice(_FORMATS), default="text", help="trace: for Perfetto.")
@click.option(
    "--boot",
    "asked",
    metavar="A",
    shell_complete=completing("boot"),
    help="Number in --list, or start of a time there or of a boot id; without it, the newest boot.",
)
@click.option(
    "--list",
    "listing",
    is_flag=True,
    help="List what is on record, newest first: boots, and runs about the bytes alone.",
)
@click.option(
    "--usd-per-hour",
    type=AtLeast(0, float),
    metavar="USD",
    help="Price the wait: what this node costs; without it, its class's price.",
)
@click.option("-o", "--output", type=NewPath(path_type=Path, dir_okay=False), help="Write to this file.")
@common_options
def command(
    common: Common, kind: str, asked: str | None, listing: bool, usd_per_hour: float | None, output: Path | None
) -> None:
    """Show where the time of a boot went, what it waited for, and how it compares with earlier ones."""
    node = open_node(common)
    reports = _reports(node)
    if listing:
        with for_reader(sys.stdout):
            click.echo(_listing(common, reports))
        return
    number = _number(reports, asked)
    from kboot.report.timeline import make_timeline

    report = reports[number - 1]
    older = [r for r in reports[number:] if r.profile == report.profile][:_COMPARED]
    timeline = make_timeline(report, older)
    price = _price(report, node, usd_per_hour)
    kind = "json" if common.json else kind
    if output is None:
        with for_reader(sys.stdout):
            click.echo(_render(kind, timeline, price, node, to_file=False))
        return
    from kboot.host.files import atomic_write

    text = _render(kind, timeline, price, node, to_file=True)
    atomic_write(output, f"{text.rstrip()}\n".encode())


def _reports(node: Node) -> tuple[BootReport, ...]:
    from kboot.report.saved import KEPT_BOOTS, load_reports

    reports = load_reports(node.paths, KEPT_BOOTS)
    if not reports:
        raise FactMissing(
            "no-boot",
            "no boot is on record on this node",
            where=(str(node.paths.history),),
            hint="`kboot boot` makes one; `kboot status` shows one that runs",
        )
    return reports


def _number(reports: tuple[BootReport, ...], asked: str | None) -> int:
    """Return the place in the list of what is asked for; without that, of the newest whole boot."""
    if asked is None:
        return next((n for n, report in enumerate(reports, 1) if report.what == "boot"), 1)
    from kboot.report.named_boot import choose_boot, name_boots

    return choose_boot(name_boots(reports), asked).number or 1


def _listing(common: Common, reports: tuple[BootReport, ...]) -> str:
    from kboot.report.document import document, dumps
    from kboot.report.render_json import boot_document
    from kboot.report.text_timeline import history_text

    if not common.json:
        return history_text(reports)
    short = ("what", "boot_id", "profile", "commit", "status", "started_unix_s", "finished_unix_s", "ready_unix_s")
    return dumps(document("history", {"boots": [{k: boot_document(r)[k] for k in short} for r in reports]}))


def _price(report: BootReport, node: Node, usd_per_hour: float | None) -> HourPrice | None:
    """Return what was asked for, else what the class of the node's GPUs costs."""
    from kboot.profile.load import load_node_classes
    from kboot.report.price import HourPrice, price_of

    if usd_per_hour is not None:
        return HourPrice(usd_per_hour)
    return price_of(report, load_node_classes(node.paths)) if report.gpus else None


def _render(kind: str, timeline: Timeline, price: HourPrice | None, node: Node, *, to_file: bool) -> str:
    from kboot import __version__
    from kboot.report.document import dumps
    from kboot.report.render_json import timeline_document
    from kboot.report.render_text import no_paint

    match kind:
        case "json":
            return dumps(timeline_document(timeline))
        case "svg":
            from kboot.report.render_svg import timeline_svg

            return timeline_svg(timeline).rstrip()
        case "trace":
            from kboot.report.trace import trace_document

            return dumps(trace_document(timeline))
        case "html":
            from kboot.report.html import timeline_html

            return timeline_html(timeline, version=__version__, price=price).rstrip()
        case _:
            from kboot.report.text_timeline import timeline_text

            paint = no_paint if to_file else painter(node)
            return timeline_text(timeline, paint=paint, price=price)
