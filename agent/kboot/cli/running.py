"""How do the commands that boot, or do a part of it, run and end? One way for all of them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from kboot.addresses import host_port
from kboot.cli.edge import Finished
from kboot.cli.options import (
    Asked,
    Common,
    Node,
    for_reader,
    need_this_machine,
    open_node,
    open_profile,
    painter,
    show,
)
from kboot.errors import ExitStatus

if TYPE_CHECKING:
    import threading

    from kboot.errors import KbootError
    from kboot.events import Emit, Event
    from kboot.host.types import Host
    from kboot.options import BootOptions
    from kboot.profile.types import Profile
    from kboot.report.types import BootReport

_COMPARED = 20

RUN_STATUSES = (
    (ExitStatus.DONE, "done, or there was nothing to do"),
    (ExitStatus.USAGE, "--root: another machine than this one is meant"),
    (ExitStatus.DEGRADED, "done, but some steps failed (see the report)"),
    (ExitStatus.PROFILE, "the profile or configuration is not valid"),
    (ExitStatus.FACT_MISSING, "a fact that the plan needs could not be read"),
    (ExitStatus.VERIFICATION, "bytes are not those of the pinned commit"),
    (ExitStatus.ACTION_FAILED, "a change to the machine failed"),
    (ExitStatus.DOES_NOT_FIT, "GPU memory, RAM or disk is too small"),
    (ExitStatus.LICENSE, "the model's terms are not accepted"),
    (ExitStatus.SOURCE, "no source can be reached, or all refuse"),
    (ExitStatus.INTERRUPTED, "interrupted; the next run goes on from here"),
)


def run_boot(common: Common, asked: Asked, options: BootOptions, doing: str) -> None:
    """Boot, or do the phases of it that the options name; print the timeline; end with the report's status.

    The result is printed once: as soon as the engine answers, else when the boot has ended.
    """
    from kboot.boot import boot
    from kboot.cli.watch import log_end, stop_on_signals, watch

    node = open_node(common)
    need_this_machine(node.host, doing)
    profile = open_profile(asked, node)
    standby = options.serve and (options.standby or node.config.standby)
    options = replace(options, token_file=node.config.token_file, standby=standby)
    stop = stop_on_signals()
    answered: list[BootReport] = []
    with watch(common, node, profile.name, serving=options.serve, save=options.what) as seen:

        def on_ready(report: BootReport) -> None:
            answered.append(report)
            seen.calm()
            log_end(seen, report)
            show_report(common, node, report)
            if not options.exit_when_ready:
                leave_to_workers(report, node.host)
            if seen.log is None and not options.exit_when_ready:
                click.echo(f"serving on {host_port(profile.serve.host, profile.serve.port)}; Ctrl-C stops it", err=True)

        beside = _beside_serving(node, profile, seen.emit, stop) if options.serve else nullcontext(seen.emit)
        with beside as emit:
            report = boot(profile, node.host, node.paths, options, emit, stop, on_ready)
    if not answered:
        log_end(seen, report)
        show_report(common, node, report)
    elif report.error is not None:
        _say_error(report.error)
    end_as(report)


@contextmanager
def _beside_serving(node: Node, profile: Profile, emit: Emit, stop: threading.Event) -> Iterator[Emit]:
    """Heed who takes this machine away, and hash what of an image was only compared once there is a hand-off."""
    from kboot.apply.reclaim import NoticeWatch
    from kboot.events import PhaseStarted
    from kboot.proof import Proof

    notices = NoticeWatch(node.config.reclaim, emit, lambda _said: stop.set())
    proof = Proof(node.host, node.paths, emit)

    def offering(event: Event) -> None:
        emit(event)
        if isinstance(event, PhaseStarted) and event.phase == "serve":  # the hand-off is there
            proof.offer(profile)

    for helper in (notices, proof):
        helper.begin()
    try:
        yield offering
    finally:
        for helper in (proof, notices):
            helper.end()


def leave_to_workers(report: BootReport, host: Host) -> None:
    """Keep this process, which only waits from now on, off the CPUs of the engine's workers, if there are others."""
    from kboot.apply.own_cpus import OwnCpus

    OwnCpus(host).leave_to(report.workers)


def _say_error(error: KbootError) -> None:
    """Print what happened after the result was printed: on stderr, where no document is expected."""
    from kboot.report.render_text import error_text

    with for_reader(sys.stderr):
        click.echo(error_text(error), err=True)


def show_report(common: Common, node: Node, report: BootReport) -> None:
    """Print a boot: its timeline for people, the whole record for programs."""
    from kboot.report.render_json import boot_document

    def text() -> str:
        from kboot.report.saved import load_reports
        from kboot.report.text_timeline import timeline_text
        from kboot.report.timeline import make_timeline

        return timeline_text(make_timeline(report, load_reports(node.paths, _COMPARED)), paint=painter(node))

    show(common, text, lambda: boot_document(report))


def end_as(report: BootReport) -> None:
    """End the command with the status that the report means.

    Raises:
        Finished: for every status but 0.
    """
    match report.status:
        case "done":
            return
        case "degraded":
            raise Finished(ExitStatus.DEGRADED)
        case "interrupted":
            click.echo("kboot: interrupted", err=True)
            raise Finished(ExitStatus.INTERRUPTED)
        case "failed":
            raise Finished(ExitStatus.ACTION_FAILED if report.error is None else report.error.status)
