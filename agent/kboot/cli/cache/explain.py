"""`kboot cache explain`: why did a kernel cache miss?"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from kboot.cli.options import Command, Common, common_options, completing, open_node, painter, show
from kboot.errors import ExitStatus, FactMissing

if TYPE_CHECKING:
    from kboot.host.paths import Paths
    from kboot.report.cache_manifest import CacheManifest


@click.command(
    "explain",
    cls=Command,
    short_help="Say why a cache missed.",
    examples=(
        ("kboot cache explain", "the last boot, compared with the one before"),
        ("kboot cache explain --against 4", "with number 4 of `kboot timeline --list`"),
    ),
    statuses=(
        (ExitStatus.DONE, "explained, also when nothing missed"),
        (ExitStatus.USAGE, "no boot on record fits"),
        (ExitStatus.PROFILE, "the configuration is not valid"),
        (ExitStatus.FACT_MISSING, "fewer than two boots are on record"),
    ),
)
@click.option(
    "--boot",
    "boot_",
    metavar="A",
    shell_complete=completing("boot"),
    help="Number in `kboot timeline --list`, or start of a time there or of a boot id; without it, the newest boot.",
)
@click.option(
    "--against",
    metavar="B",
    shell_complete=completing("boot"),
    help="Compare with this one; without it the one before A.",
)
@common_options
def explain_command(common: Common, boot_: str | None, against: str | None) -> None:
    """Name the factor that changed, what it invalidated, what that cost, and whether it could be avoided."""
    from kboot.report.cache_explain import explain
    from kboot.report.text_cache import explanation_document, explanation_text

    node = open_node(common)
    found = explain(*_pair(node.paths, boot_, against))
    show(
        common,
        lambda: explanation_text(found, paint=painter(node)),
        lambda: explanation_document(found),
    )


def _pair(paths: Paths, boot: str | None, against: str | None) -> tuple[CacheManifest, CacheManifest]:
    """Return the boot and the one it is compared with.

    Raises:
        FactMissing: there is none to compare with. UsageError: what was asked for fits no boot.
    """
    from kboot.report.saved_caches import load_manifests

    manifests = load_manifests(paths)
    if not manifests:
        raise FactMissing(
            "no-boot-on-record",
            "no boot with a kernel cache is on record on this node",
            where=(str(paths.history),),
            hint="run `kboot boot`",
        )
    chosen = manifests[0] if boot is None else _choose(paths, manifests, boot)
    if against is not None:
        return chosen, _choose(paths, manifests, against)
    before = [m for m in manifests if m.profile == chosen.profile and m.started_unix_s < chosen.started_unix_s]
    # One whose engine answered has measured something; a boot that stopped before has not.
    other = next((m for m in before if m.state == "ready"), before[0] if before else None)
    if other is None:
        raise FactMissing(
            "nothing-to-compare",
            f"this is the first boot of {chosen.profile} on record: there is none to compare with",
            hint="boot again, or name another boot with --against",
        )
    return chosen, other


def _choose(paths: Paths, manifests: tuple[CacheManifest, ...], asked: str) -> CacheManifest:
    from kboot.report.named_boot import choose_boot, with_manifests
    from kboot.report.saved import KEPT_BOOTS, load_reports

    known = with_manifests(load_reports(paths, KEPT_BOOTS), manifests)
    return known[choose_boot(tuple(known), asked, "with kernel caches")]
