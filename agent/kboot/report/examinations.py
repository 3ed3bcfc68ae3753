"""What did doctor find at earlier boots, and what of today's findings is new?"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kboot.checks.words import count
from kboot.errors import KbootError, UsageError
from kboot.host.clock import unix_s
from kboot.host.files import atomic_write, file_names, make_dirs, read_small, remove
from kboot.jsontext import parse_json
from kboot.report.document import dumps
from kboot.report.kept_order import newest_first
from kboot.report.named_boot import HINT, NamedBoot, choose_boot, name_boots
from kboot.report.saved import KEPT_BOOTS, load_reports
from kboot.values import dataclass

if TYPE_CHECKING:
    from kboot.checks.types import Finding, Status
    from kboot.host.paths import Paths

KEPT = 30
_LIMIT_BYTES = 8 << 20
_BAD: Mapping[Status, int] = {"ok": 0, "skip": 0, "warn": 1, "unknown": 1, "fail": 2}
_MEASURED = re.compile(r"\d[\d.,]{0,30} ?(?:%|(?:s|ms|min|h|d|[kMGTP]?i?B|°C|W)\b)")
_NAME = re.compile(r"\d+\.\d{3}_[0-9a-f-]{8,40}\.json")
_BOOT_ID = re.compile(r"[0-9a-f-]{8,40}")


@dataclass(frozen=True, slots=True)
class Examination:
    """An earlier run. found: check → (status, what was seen)."""

    boot_id: str
    mode: str
    started_unix_s: float
    found: Mapping[str, tuple[Status, str]]


@dataclass(frozen=True, slots=True)
class Since:
    """Today against then. news: check → what it said then, "" where it was not asked or not bad.

    as_before: how many bad findings are the same. gone: checks whose finding then is none now.
    """

    then: Examination
    news: Mapping[str, str]
    as_before: int
    gone: tuple[str, ...]


def keep_examination(paths: Paths, boot_id: str, document: Mapping[str, Any]) -> None:
    """Keep a run beside those of earlier boots, in place of the last one of this boot.

    Raises:
        KbootError: the state folder cannot be written.
    """
    if not _BOOT_ID.fullmatch(boot_id):
        return
    folder = _folder(paths)
    make_dirs(folder)
    started = float(document["started_unix_s"])
    for name in [n for n in _names(folder) if _boot_of(n) == boot_id]:
        remove(folder / name)
    own = f"{_moment(started)}_{boot_id}.json"
    atomic_write(folder / own, dumps({**document, "boot_id": boot_id}).encode() + b"\n")
    for name in _names(folder)[KEPT:]:
        if name != own:  # its clock was set back meanwhile
            remove(folder / name)


def find_examination(paths: Paths, asked: str, boot_id: str) -> Examination:
    """Return the run that is meant: "-1" the last one of an earlier boot of this machine, "-2" the one before; a boot
    named as everywhere, or a file that `kboot doctor --json` printed. boot_id: of this boot.

    Raises:
        UsageError: there is none.
    """
    if "/" in asked or asked.endswith(".json"):
        found = _load(Path(asked))
        if found is None:
            raise UsageError("no-such-examination", f"{asked} is not a document that `kboot doctor --json` printed")
        return found
    folder = _folder(paths)
    names = {_boot_of(name): name for name in reversed(_names(folder))}  # oldest first: the newest of a boot stays
    if re.fullmatch(r"-\d{1,3}", asked):
        asked = _earlier([boot for boot in reversed(names) if boot != boot_id], asked)
    boot = choose_boot(_examined(paths, names), asked, "with a run of doctor")
    found = _load(folder / names[boot.boot_id])
    if found is None:
        raise UsageError("no-such-examination", f"the run of doctor at boot {boot.boot_id[:8]} cannot be read")
    return found


def _earlier(boots: Sequence[str], asked: str) -> str:
    """Return which boot "-1", "-2" means. boots: earlier ones of the machine at which doctor ran, the newest first.

    Raises:
        UsageError: there are fewer.
    """
    place = int(asked[1:])
    if 0 < place <= len(boots):
        return boots[place - 1]
    kept = count(len(boots), "earlier boot") if boots else "no earlier boot"
    raise UsageError(
        "no-such-boot",
        f"{asked} counts the machine's own boots back from this one (-1 is the one before), and a run of doctor is on "
        f"record for {kept}",
        hint=f"to compare with one of this boot, {HINT}",
    )


def _examined(paths: Paths, names: Mapping[str, str]) -> tuple[NamedBoot, ...]:
    """Return the boots at which doctor ran: those of the list, and those of which nothing else is on record."""
    listed = [b for b in name_boots(load_reports(paths, KEPT_BOOTS)) if b.boot_id in names]
    known = {b.boot_id for b in listed}
    alone = (
        NamedBoot(None, boot, float(names[boot].partition("_")[0]), "doctor") for boot in names if boot not in known
    )
    return tuple(sorted((*listed, *alone), key=lambda b: -b.started_unix_s))


def compare(then: Examination, now: Mapping[str, Finding]) -> Since:
    """Return what is new: bad now and not then, worse than then, or bad in other words than numbers."""
    news: dict[str, str] = {}
    as_before = 0
    for name, finding in now.items():
        status, seen = then.found.get(name, ("ok", ""))
        if not _BAD[finding.status]:
            continue
        if _BAD[status] < _BAD[finding.status]:
            news[name] = f"{status}: {seen}" if _BAD[status] else ""
        elif _words(seen) != _words(finding.seen):
            news[name] = f"{status}: {seen}"
        else:
            as_before += 1
    gone = tuple(n for n, (s, _) in then.found.items() if _BAD[s] and n in now and not _BAD[now[n].status])
    return Since(then, news, as_before, gone)


def _words(seen: str) -> str:
    """Return a sentence without what moves from minute to minute: sizes, times, shares."""
    return _MEASURED.sub("#", seen)


def _load(path: Path) -> Examination | None:
    try:
        doc = parse_json(read_small(path, _LIMIT_BYTES))
        if doc["kind"] != "doctor":
            return None
        found = {str(f["id"]): (f["status"], str(f["seen"])) for f in doc["findings"] if f["status"] in _BAD}
        return Examination(str(doc.get("boot_id", "")), str(doc["mode"]), float(doc["started_unix_s"]), found)
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _folder(paths: Paths) -> Path:
    return paths.state / "doctor"


def _names(folder: Path) -> list[str]:
    """Return the names of kept runs, newest first."""
    try:
        names: Iterable[str] = file_names(folder)
    except KbootError:  # not this user's to read
        return []
    return newest_first((name for name in names if _NAME.fullmatch(name)), _moment(unix_s()))


def _moment(unix_s: float) -> str:
    return f"{unix_s:015.3f}"


def _boot_of(name: str) -> str:
    return name.removesuffix(".json").partition("_")[2]
