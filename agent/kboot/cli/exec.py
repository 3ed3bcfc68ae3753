"""`kboot exec`: become the engine that was prepared, or wrap a command line.

It stands on the way to every engine start: nothing is imported here that the hand-off does not need.
"""

from __future__ import annotations

import click

from kboot.cli.options import (
    Asked,
    AtLeast,
    Command,
    Common,
    need_this_machine,
    open_exec,
    open_node,
    own_machine_options,
    profile_options,
)
from kboot.errors import ExitStatus, UsageError


@click.command(
    "exec",
    cls=Command,
    examples=(
        ("kboot exec", "become the engine of the last boot, as kboot-engine.service does"),
        ("kboot exec -- vllm serve ./model", "run any command line with its share, pins and caches"),
    ),
    statuses=(
        (ExitStatus.DONE, "the node stands by, and `kboot live` was not said: nothing was started"),
        (ExitStatus.USAGE, "the options do not go together, or --root means another machine than this one"),
        (ExitStatus.PROFILE, "the configuration file is not valid"),
        (ExitStatus.ACTION_FAILED, "the record does not hold (each difference is named), or the start failed"),
    ),
)
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="[-- CMD...]")
@click.option("--workers", type=AtLeast(1), metavar="N", help="With CMD: GPU workers it will start.")
@profile_options
@own_machine_options
def command(common: Common, asked: Asked, words: tuple[str, ...], workers: int | None) -> None:
    """Replace this process by the prepared engine, or by CMD; afterwards the exit status is that program's."""
    if words:
        from kboot.cli.wrap import wrap

        node = open_node(common)
        need_this_machine(node.host, "exec")
        wrap(common, asked, node, words, workers)
    if workers is not None or asked != Asked():
        raise UsageError("usage", "--workers, --profile and --set are for `kboot exec -- CMD`; the record has its own")
    from kboot.cli.become import become_engine

    host, paths, standby = open_exec(common)
    need_this_machine(host, "exec")
    if standby:
        from kboot.apply.standby import is_live

        if not is_live(paths, host):
            click.echo("kboot: this node stands by; `kboot live` starts its engine", err=True)
            return
    become_engine(host, paths)
