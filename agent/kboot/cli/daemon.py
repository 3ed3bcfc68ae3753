"""`kboot daemon`: what kboot.service runs."""

from __future__ import annotations

import sys

import click

from kboot.cli.edge import Finished
from kboot.cli.options import (
    Asked,
    Command,
    Common,
    need_this_machine,
    open_node,
    open_profile,
    own_machine_options,
    profile_name,
    profile_options,
)
from kboot.cli.running import RUN_STATUSES
from kboot.errors import ExitStatus
from kboot.events import Event

_NOT_OF_A_DAEMON = (ExitStatus.DONE, ExitStatus.DEGRADED)


@click.command(
    "daemon",
    cls=Command,
    examples=(
        ("kboot daemon --profile demo", "prepare this node, then watch it until told to stop"),
        ("systemctl start kboot", "the same as a service; SIGHUP prepares it again"),
    ),
    statuses=((ExitStatus.DONE, "told to stop by SIGTERM"), *(s for s in RUN_STATUSES if s[0] not in _NOT_OF_A_DAEMON)),
)
@profile_options
@own_machine_options
def command(common: Common, asked: Asked) -> None:
    """Prepare this node, tell systemd how it goes, answer `kboot status`, and watch."""
    from kboot.cli.eventlog import EventLog
    from kboot.cli.garbage import while_working
    from kboot.cli.logs import make_logger
    from kboot.cli.watch import own_boot_id
    from kboot.daemon import run_daemon
    from kboot.host.clock import monotonic_s
    from kboot.options import BootOptions
    from kboot.report.progress import Tracker

    node = open_node(common)
    need_this_machine(node.host, "daemon")
    name = profile_name(asked, node)
    open_profile(asked, node)
    while_working()
    log = make_logger({"boot_id": own_boot_id(node)[:8], "profile": name}, verbose=common.verbose, env=node.env)
    # The daemon follows the boot itself; this tracker is only for the rate in progress lines.
    tracker = Tracker(lambda _event: None)
    lines = EventLog(log, tracker.view, monotonic_s)

    def emit(event: Event) -> None:
        tracker.emit(event)
        lines.emit(event)

    status = run_daemon(
        name,
        lambda: open_profile(asked, node),
        node.host,
        node.paths,
        emit,
        BootOptions(token_file=node.config.token_file),
        node.config,
        _doctor(common, asked),
    )
    if status != ExitStatus.DONE:
        raise Finished(ExitStatus(status))


def _doctor(common: Common, asked: Asked) -> tuple[str, ...]:
    """Return the command line of doctor for the same node and profile."""
    config = ("--config", str(common.config)) if common.config is not None else ()
    profile = ("--profile", asked.name) if asked.name else ()
    laid = (word for each in asked.overrides for word in ("--set", each))
    return (sys.executable, "-m", "kboot", "doctor", "--json", *config, *profile, *laid)
