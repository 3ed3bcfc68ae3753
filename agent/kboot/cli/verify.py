"""`kboot verify`: are the bytes on this disk those of the pinned commit?"""

from __future__ import annotations

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
    from kboot.checkpoint import VerifyMode

_MODES = ("ledger", "quick", "full")


@click.command(
    "verify",
    cls=Command,
    examples=(
        ("kboot verify --profile demo", "by the mode of the profile"),
        ("kboot verify --profile demo --mode full --repair", "hash every byte, fetch again what is wrong"),
    ),
    statuses=(
        (ExitStatus.DONE, "every wanted file is what the commit says, as far as the mode looks"),
        (ExitStatus.PROFILE, "the profile or configuration is not valid"),
        (ExitStatus.VERIFICATION, "a file is missing or not what the commit says"),
        (ExitStatus.ACTION_FAILED, "a file cannot be read or repaired"),
        (ExitStatus.SOURCE, "--repair: no source can be reached, or all refuse"),
        (ExitStatus.INTERRUPTED, "interrupted"),
    ),
)
@click.option(
    "--mode",
    type=click.Choice(_MODES),
    help="ledger: identities; quick: structure as well; full: every byte. Without it the profile's.",
)
@click.option("--repair", is_flag=True, help="Fetch again what is wrong; only with this are files changed.")
@click.option("--offline", is_flag=True, help="Ask no source, not even with --repair.")
@profile_options
@common_options
def command(common: Common, asked: Asked, mode: VerifyMode | None, repair: bool, offline: bool) -> None:
    """Prove the bytes of the checkpoint on this disk; needs no network, and says how far the proof goes."""
    from kboot.cli.watch import stop_on_signals, watch
    from kboot.report.text_verify import verify_document, verify_text
    from kboot.verification import verify_checkpoint

    node = open_node(common)
    profile = open_profile(asked, node)
    stop = stop_on_signals()
    with watch(common, node, profile.name, save=False) as seen:
        found = verify_checkpoint(
            profile, node.host, node.paths, mode or profile.verify.mode, repair, offline, seen.emit, stop
        )
    show(
        common,
        lambda: verify_text(found.claim, found.outcomes, found.listing, verbose=common.verbose, paint=painter(node)),
        lambda: verify_document(found.mode, found.claim, found.outcomes, found.listing),
    )
    if stop.is_set():
        raise Finished(ExitStatus.INTERRUPTED)
    failed = [o for o in found.outcomes if o.status == "failed"]
    if failed:
        raise Finished(failed[0].error.status if failed[0].error else ExitStatus.VERIFICATION)
