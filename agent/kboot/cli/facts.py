"""`kboot facts`: what was found on this node?"""

from __future__ import annotations

from pathlib import Path

import click

from kboot.cli.options import Command, Common, common_options, open_node, painter, show
from kboot.errors import ExitStatus


@click.command(
    "facts",
    cls=Command,
    examples=(
        ("kboot facts", "CPUs, memory, GPUs, disks and engine of this node"),
        ("kboot facts --record /tmp/node", "write a tree that --root reads back"),
    ),
    statuses=(
        (ExitStatus.DONE, "shown; what could not be read is listed as such"),
        (ExitStatus.PROFILE, "the configuration file is not valid"),
        (ExitStatus.ACTION_FAILED, "the record cannot be written"),
    ),
)
@click.option(
    "--record", "folder", metavar="DIR", type=click.Path(path_type=Path, file_okay=False), help="Write the record here."
)
@common_options
def command(common: Common, folder: Path | None) -> None:
    """Show what was found on this node; changes nothing but the folder given to --record."""
    from kboot.facts.collect import collect
    from kboot.facts.render import facts_to_json
    from kboot.report.document import document
    from kboot.report.text_facts import facts_text

    node = open_node(common)
    if folder is None:
        facts = collect(node.host, node.paths)
        show(
            common,
            lambda: facts_text(facts, verbose=common.verbose, paint=painter(node)),
            lambda: facts_to_json(facts),
        )
        return
    from kboot.host.record import record

    files = record(node.host, folder, lambda host: collect(host, node.paths))
    show(
        common,
        lambda: f"{files} files written below {folder}; `kboot facts --root {folder}` reads them back",
        lambda: document("record", {"path": str(folder), "files": files}),
    )
