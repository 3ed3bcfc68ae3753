"""`kboot verify`: are the bytes on this disk those of the pinned commit?"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from kboot.cli.edge import Finished
from kboot.cli.options import (
    Asked,
    AtLeast,
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
        ("kboot verify --mode full --background --rate-mib-s 200", "hash every byte beside an engine that serves"),
    ),
    statuses=(
        (ExitStatus.DONE, "every wanted file is what the commit says, as far as the mode looks"),
        (ExitStatus.PROFILE, "the profile or configuration is not valid"),
        (ExitStatus.VERIFICATION, "a file is missing or not what the commit says"),
        (ExitStatus.ACTION_FAILED, "a file cannot be read or repaired"),
        (ExitStatus.SOURCE, "this disk knows nothing of the commit; --repair: no source can be reached, or all refuse"),
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
@click.option(
    "--background",
    is_flag=True,
    help="At idle priority, one file at a time, the one whose proof is the oldest first; read from the disk itself, "
    "with the page cache left as it was. A run that is stopped goes on where it was.",
)
@click.option("--rate-mib-s", type=AtLeast(0), default=0, metavar="N", help="Read at most this; 0 = no limit.")
@click.option(
    "--older-than-h",
    type=AtLeast(0, float),
    default=0.0,
    metavar="H",
    help="Leave files that were hashed in the last H hours.",
)
@profile_options
@common_options
def command(
    common: Common,
    asked: Asked,
    mode: VerifyMode | None,
    repair: bool,
    offline: bool,
    background: bool,
    rate_mib_s: int,
    older_than_h: float,
) -> None:
    """Prove the bytes of the checkpoint on this disk; needs no network, and says how far the proof goes."""
    from kboot.apply.pace import Pace
    from kboot.cli.watch import stop_on_signals, watch
    from kboot.host.clock import unix_s
    from kboot.host.priority import be_idle
    from kboot.report.text_verify import verify_document, verify_text
    from kboot.verification import verify_checkpoint

    node = open_node(common)
    profile = open_profile(asked, node)
    stop = stop_on_signals()
    if background:
        be_idle()
    pace = Pace(rate_mib_s, background)
    with watch(common, node, profile.name, save=None) as seen:
        found = verify_checkpoint(
            profile,
            node.host,
            node.paths,
            mode or profile.verify.mode,
            repair,
            offline,
            seen.emit,
            stop,
            pace,
            older_than_h * 3600,
        )
    age_s = None if found.oldest_hash_unix_s is None else unix_s() - found.oldest_hash_unix_s
    what = (found.claim, found.outcomes, found.listing, age_s)
    show(
        common,
        lambda: verify_text(*what, verbose=common.verbose, paint=painter(node)),
        lambda: verify_document(found.mode, *what),
    )
    if stop.is_set():
        click.echo("kboot: interrupted", err=True)
        raise Finished(ExitStatus.INTERRUPTED)
    failed = [o for o in found.outcomes if o.status == "failed"]
    if failed:
        raise Finished(failed[0].error.status if failed[0].error else ExitStatus.VERIFICATION)
