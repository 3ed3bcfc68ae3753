"""`kboot live`: let a node that stands by serve."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from kboot.cli.options import Command, Common, need_this_machine, open_node, own_machine_options, show
from kboot.errors import ExitStatus, UsageError

if TYPE_CHECKING:
    from kboot.apply.live import Answered


@click.command(
    "live",
    cls=Command,
    examples=(
        ("kboot live", "start the engine of this node, and return when it answers"),
        ("kboot live --no-wait", "start it, and return at once"),
        ("kboot live --back", "stop the engine's service, and stand by again"),
    ),
    statuses=(
        (ExitStatus.DONE, "the engine answers; with --no-wait: it was started; with --back: it has stopped"),
        (ExitStatus.USAGE, "the options do not go together, or --root means another machine than this one"),
        (ExitStatus.PROFILE, "the configuration file is not valid"),
        (ExitStatus.ACTION_FAILED, "nothing stands by here, the node is not prepared, or this user may not do it"),
        (ExitStatus.NOT_READY, "the engine did not answer in time, or ended"),
        (ExitStatus.INTERRUPTED, "interrupted; the engine goes on starting"),
    ),
)
@click.option("--no-wait", is_flag=True, help="Do not wait until the engine answers.")
@click.option("--back", is_flag=True, help="Stop the engine's service and stand by again.")
@own_machine_options
def command(common: Common, no_wait: bool, back: bool) -> None:
    """Start the engine of a node that holds at "warm, not serving" (`standby = true`, `boot --serve --standby`)."""
    from kboot.apply.live import answer_of, begin_serving, nobody_starts, stop_serving

    if no_wait and back:
        raise UsageError("usage", "--no-wait is about the engine's start, --back about its end")
    node = open_node(common)
    need_this_machine(node.host, "live")
    if back:
        said = stop_serving(node.paths, node.host, node.config.standby)
        show(common, lambda: _text(said), lambda: _document("standby", said, None))
        return
    going = begin_serving(node.paths, node.host, node.config.standby)
    if nobody_starts(node.paths, node.host):
        click.echo("kboot: no service starts the engine here; `kboot exec` does", err=True)
    if no_wait:
        show(common, lambda: "the engine is starting", lambda: _document("starting", "the engine is starting", None))
        return
    answered = answer_of(going, node.paths, node.host)
    show(common, lambda: _text(answered.text), lambda: _document("serving", answered.text, answered))


def _text(said: str) -> str:
    from kboot.report.render_text import join, wrap

    return join(wrap(said))


def _document(state: str, text: str, answered: Answered | None) -> dict[str, Any]:
    from kboot.report.document import document

    seconds = None if answered is None else round(answered.seconds, 3)
    return document("live", {"state": state, "text": text, "seconds": seconds})
