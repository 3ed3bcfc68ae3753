"""`kboot facts`: what was found on this node?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from kboot.cli.options import (
    Asked,
    Command,
    Common,
    NewPath,
    Node,
    common_options,
    open_node,
    open_profile,
    painter,
    profile_options,
    say_beside,
    show,
)
from kboot.errors import ExitStatus, ProfileError

if TYPE_CHECKING:
    from kboot.host.types import Host
    from kboot.profile.types import FleetAsk

_PROGRAM_S = 10.0


@click.command(
    "facts",
    cls=Command,
    examples=(
        ("kboot facts", "CPUs, memory, GPUs, disks and engine of this node"),
        ("kboot facts --profile kimi-k3", "and the other nodes that its [fleet] finds"),
        ("kboot facts --record /tmp/node", "write a tree that --root reads back"),
    ),
    statuses=(
        (ExitStatus.DONE, "shown; what could not be read is listed as such"),
        (ExitStatus.PROFILE, "the configuration, or the profile that was named, is not valid"),
        (ExitStatus.ACTION_FAILED, "the record cannot be written"),
    ),
)
@click.option(
    "--record", "folder", metavar="DIR", type=NewPath(path_type=Path, file_okay=False), help="Write the record here."
)
@profile_options
@common_options
def command(common: Common, asked: Asked, folder: Path | None) -> None:
    """Show what was found on this node; changes nothing but the folder given to --record."""
    from kboot.facts.collect import NvmlAsk, collect
    from kboot.facts.render import facts_to_json
    from kboot.report.document import document
    from kboot.report.text_facts import facts_text

    node = open_node(common)
    if folder is None:
        facts = collect(node.host, node.paths, ask=NvmlAsk(say=say_beside), fleet=_fleet(asked, node))
        show(
            common,
            lambda: facts_text(facts, verbose=common.verbose, paint=painter(node)),
            lambda: facts_to_json(facts),
        )
        return
    from kboot.host.record import record

    files = record(node.host, folder, lambda host: _read_all(host, node))
    show(
        common,
        lambda: _recorded_text(files, folder),
        lambda: document("record", {"path": str(folder), "files": files}),
    )


def _recorded_text(files: int, folder: Path) -> str:
    from kboot.checks.words import count
    from kboot.report.render_text import join, wrap

    return join(
        [
            *wrap(f"{count(files, 'file')} written below {folder}", whole=True),
            *wrap(f"`kboot facts --root {folder}` reads them back", whole=True),
        ]
    )


def _read_all(host: Host, node: Node) -> None:
    """Ask for all that doctor asks a recorded machine; what is different a moment later is left out."""
    from kboot.facts.collect import NvmlAsk, collect
    from kboot.facts.storage import collect_storage
    from kboot.facts.upkeep import collect_upkeep
    from kboot.host.paths import find_paths

    if node.host.live:
        collect_storage(host, find_paths(Path("/"), {}, 0))  # where --root looks, whatever this user's folders are
    facts = collect(host, node.paths, ask=NvmlAsk(say=say_beside))
    collect_upkeep(host, node.paths, facts, None, "", _PROGRAM_S, None)


def _fleet(asked: Asked, node: Node) -> FleetAsk | None:
    """Return how the profile finds the other nodes; a configured profile that is not valid hides no fact."""
    if not asked.name and not node.config.profile:
        return None
    try:
        return open_profile(asked, node).fleet
    except ProfileError:
        if asked.name:
            raise
        return None
