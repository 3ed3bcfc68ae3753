"""Moves entries of a kernel cache that an engine must not find to where a person can look at them."""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from kboot.apply.outcome import Effect, carry_out
from kboot.host.clock import unix_s
from kboot.host.files import atomic_write, fsync_dir, make_dirs, rename
from kboot.host.holders import Holders, holders_of
from kboot.host.tree import read_head
from kboot.plan.types import QuarantineCache
from kboot.report.types import Outcome
from kboot.store.cache_files import QUARANTINE
from kboot.store.cache_shape import torn

RECORD = "record.json"

_TORN = re.compile(r"torn by a crash")


def quarantine(actions: Sequence[QuarantineCache]) -> tuple[Outcome, ...]:
    """Move each entry, unless it is whole by now or a process may have it open."""
    found = [Path(a.path) / a.file for a in actions]
    try:
        held = holders_of(path for path in found if path.exists())
    except OSError:  # one went away between the two looks; each is looked at alone
        held = {}
    return tuple(
        carry_out("cache", action, partial(_move, action, held.get(path))) for action, path in zip(actions, found)
    )


def _move(action: QuarantineCache, held: Holders | None) -> Effect:
    folder = Path(action.path)
    entry, file = folder / action.entry, folder / action.file
    if not file.exists():
        return Effect(status="unchanged", after="it is gone already")
    if held is None or not held.none:
        return Effect(status="unchanged", after=f"left: {_who(held)} may have it open")
    if _TORN.match(action.reason) and not _is_torn(file):
        return Effect(status="unchanged", after="it is whole by now")
    place = quarantine_place(folder)
    target = place / action.entry
    make_dirs(target.parent)
    record = {**asdict(action), "unix_s": unix_s()}
    atomic_write(place / RECORD, json.dumps(record, indent=2, ensure_ascii=False).encode() + b"\n")
    rename(entry, target)
    fsync_dir(entry.parent)
    return Effect(before=str(entry), after=str(target))


def _is_torn(file: Path) -> bool:
    try:
        return bool(torn(file.name, file.stat().st_size, partial(read_head, file)))
    except OSError:
        return False


def quarantine_place(folder: Path) -> Path:
    """Return a new folder for one entry of a key's folder, or for all of it; it is another one each time."""
    stamp = datetime.fromtimestamp(unix_s(), UTC).strftime("%Y%m%dT%H%M%S")
    return folder.parent / QUARANTINE / folder.name / f"{stamp}-{secrets.token_hex(3)}"


def _who(held: Holders | None) -> str:
    if held is None:
        return "a process"
    return f"process {', '.join(map(str, held.pids))}" if held.pids else "a process that cannot be looked into"
