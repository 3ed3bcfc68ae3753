"""Which boot is meant? Every command that names boots numbers them as `kboot timeline --list` does."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from kboot.errors import UsageError
from kboot.quantities import show_time
from kboot.values import dataclass

if TYPE_CHECKING:
    from kboot.report.cache_manifest import CacheManifest
    from kboot.report.types import BootReport

HINT = (
    "name a boot by its number in `kboot timeline --list` (1 is the newest), or by the beginning of its time or boot id"
)
_SHOWN = 10
_SHORTEST = 4


@dataclass(frozen=True, slots=True)
class NamedBoot:
    """One run on record. number: in the list, 1 is the newest; None where the list does not have it."""

    number: int | None
    boot_id: str
    started_unix_s: float
    profile: str


def name_boots(reports: Sequence[BootReport]) -> tuple[NamedBoot, ...]:
    """Return the runs as the list numbers them. reports: all on record, newest first."""
    return tuple(NamedBoot(n, r.boot_id, r.started_unix_s, r.profile) for n, r in enumerate(reports, 1))


def choose_boot(boots: Sequence[NamedBoot], asked: str, having: str = "") -> NamedBoot:
    """Return the boot that is meant; of the runs of one boot id the newest.

    boots: those that can be meant, newest first. having: what they have beyond others, "with kernel caches".

    Raises:
        UsageError: none fits, or several do.
    """
    if re.fullmatch(r"\d{1,3}", asked):
        fits = [b for b in boots if b.number == int(asked)]
    else:
        fits = [b for b in boots if _begins(b, asked)]
    if len({b.boot_id for b in fits}) == 1 and (len(fits) == 1 or fits[0].boot_id.startswith(asked)):
        return fits[0]
    which = f"{having} on record" if having else "on record"
    if fits:
        raise UsageError("which-boot", f"{len(fits)} boots {which} fit {asked!r}", where=_lines(fits), hint=HINT)
    raise UsageError("no-such-boot", f"no boot {which} fits {asked!r}", where=_lines(boots), hint=HINT)


def with_manifests(
    reports: Sequence[BootReport], manifests: Sequence[CacheManifest]
) -> Mapping[NamedBoot, CacheManifest]:
    """Return the boots whose kernel caches are on record, newest first, with what is known of them."""
    found: dict[NamedBoot, CacheManifest] = {}
    for named, report in zip(name_boots(reports), reports, strict=True):
        manifest = _manifest_of(report, manifests)
        if manifest is not None:
            found[named] = manifest
    known = {id(m) for m in found.values()}
    for m in manifests:  # its report is gone, or could not be written
        if id(m) not in known:
            found[NamedBoot(None, m.boot_id, m.started_unix_s, m.profile)] = m
    return dict(sorted(found.items(), key=lambda item: -item[0].started_unix_s))


def _manifest_of(report: BootReport, manifests: Sequence[CacheManifest]) -> CacheManifest | None:
    """Return what a boot recorded; a node that went live later is on record twice, its caches once."""
    same = [m for m in manifests if (m.profile, m.boot_id) == (report.profile, report.boot_id)]
    for m in same:
        if m.started_unix_s == report.started_unix_s:
            return m
    if not report.cache_key or report.ready_unix_s is None:
        return None
    return next((m for m in same if m.key == report.cache_key and m.started_unix_s < report.started_unix_s), None)


def _begins(boot: NamedBoot, asked: str) -> bool:
    shown = show_time(boot.started_unix_s)
    times = (shown, shown.replace(" ", "T"), re.sub(r"[-:]", "", shown.replace(" ", "T")))
    return len(asked) >= _SHORTEST and any(text.startswith(asked) for text in (boot.boot_id, *times))


def _lines(boots: Sequence[NamedBoot]) -> tuple[str, ...]:
    return tuple(
        f"{'-' if b.number is None else b.number}: {show_time(b.started_unix_s)} {b.profile}, boot {b.boot_id[:8]}"
        for b in boots[:_SHOWN]
    )
