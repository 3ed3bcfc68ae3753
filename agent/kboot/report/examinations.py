"""What did doctor find at earlier boots, and what of today's findings is new?"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kboot.checks.types import Finding, Status
from kboot.errors import KbootError, UsageError
from kboot.host.files import atomic_write, file_names, make_dirs, read_small, remove
from kboot.host.paths import Paths
from kboot.jsontext import parse_json
from kboot.report.document import dumps

KEPT = 30
_LIMIT_BYTES = 8 << 20
_BAD: Mapping[Status, int] = {"ok": 0, "skip": 0, "warn": 1, "unknown": 1, "fail": 2}
_MEASURED = re.compile(r"\d[\d.,]* ?(?:%|(?:s|ms|min|h|d|[kMGTP]?i?B|°C|W)\b)")
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
    atomic_write(folder / f"{started:015.3f}_{boot_id}.json", dumps({**document, "boot_id": boot_id}).encode() + b"\n")
    for name in _names(folder)[KEPT:]:
        remove(folder / name)


def find_examination(paths: Paths, asked: str, boot_id: str) -> Examination:
    """Return the run that is meant: "-1" the last one of an earlier boot, "-2" the one before; else the beginning of a
    boot id, or a file that `kboot doctor --json` printed.

    Raises:
        UsageError: there is none.
    """
    folder = _folder(paths)
    names = _names(folder)
    if re.fullmatch(r"-\d{1,3}", asked):
        earlier = [name for name in names if _boot_of(name) != boot_id]
        place = int(asked[1:])
        chosen = folder / earlier[place - 1] if 0 < place <= len(earlier) else None
    elif "/" in asked or asked.endswith(".json"):
        chosen = Path(asked)
    else:
        fits = [name for name in names if len(asked) >= 4 and _boot_of(name).startswith(asked)]
        chosen = folder / fits[0] if len(fits) == 1 else None
    found = _load(chosen) if chosen is not None else None
    if found is None:
        known = ", ".join(_boot_of(name)[:8] for name in names[:5])
        raise UsageError(
            "no-such-examination",
            f"no run of doctor is kept for {asked!r}",
            hint=f"boots with one: {known}" if known else "`kboot doctor` keeps one for each boot of this machine",
        )
    return found


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
    return [name for name in sorted(names, reverse=True) if name.endswith(".json")]


def _boot_of(name: str) -> str:
    return name.removesuffix(".json").partition("_")[2]
