"""Which locks on this disk could keep somebody waiting for a holder that is gone or says nothing?"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from kboot.facts.kept_types import LockFacts, LockState
from kboot.host.files import read_small
from kboot.host.holders import holders_of
from kboot.host.locks import flock_holder, holder
from kboot.host.tree import read_tree

if TYPE_CHECKING:
    from kboot.host.paths import Paths
    from kboot.host.types import Host

_MOST_ENTRIES = 100_000
_BATON = re.compile(r"(?:^|/)torch-extensions/(?:.*/)?lock$")
_MARKER = re.compile(rb"(\d{1,10})\n([^\n]{1,255})\n")
_SIGNED_BY = re.compile(r"pid (\d+) on (\S+) since")


def collect_locks(host: Host, paths: Paths, now_s: float) -> tuple[LockFacts, ...]:
    """Return the locks of kboot, of the Hub's client below the hub folder, and of torch's builds in the kernel caches.

    A lock that goes with its holder's process and that nobody holds is none, whatever file it left.
    """
    return tuple(
        sorted((*_own(paths, now_s, host), *_markers(paths, now_s, host), *_batons(paths, now_s)), key=lambda k: k.path)
    )


def _own(paths: Paths, now_s: float, host: Host) -> Iterator[LockFacts]:
    """kboot's own: signed while they are held. Another machine's can be seen on a shared file system only."""
    for path in (paths.cache / ".lock", paths.state / "node.key.lock", paths.runtime / "boot.lock"):
        signed = _SIGNED_BY.match(holder(path) or "")
        if signed is None:
            continue
        quiet_s = _quiet_s(path, now_s)
        if signed[2] != host.hostname():
            yield LockFacts(str(path), "flock", "elsewhere", signed[0].removesuffix(" since"), quiet_s)
        elif flock_holder(path) is not None:
            yield LockFacts(str(path), "flock", "silent", f"pid {signed[1]}", quiet_s)


def _markers(paths: Paths, now_s: float, host: Host) -> Iterator[LockFacts]:
    """Those of the Hub's client where the file system knows no locks: a file with the holder's pid and machine."""
    for entry in read_tree(paths.hub / ".locks", _MOST_ENTRIES).files:
        if not entry.path.endswith(".lock"):  # one that was put aside
            continue
        path = paths.hub / ".locks" / entry.path
        with suppress(OSError):
            marker = _MARKER.match(read_small(path, 4096)) if entry.size_bytes else None
            if marker is None:
                continue
            pid, machine = int(marker[1]), marker[2].decode(errors="replace")
            alive: LockState = "silent" if host.exists(f"/proc/{pid}") else "dead"
            state: LockState = alive if machine == host.hostname() else "elsewhere"
            yield LockFacts(str(path), "file", state, f"pid {pid} on {machine}", now_s - entry.mtime_ns / 1e9)


def _batons(paths: Paths, now_s: float) -> Iterator[LockFacts]:
    """torch's builds wait for as long as such a file exists."""
    found = [paths.cache / e.path for e in read_tree(paths.cache, _MOST_ENTRIES).files if _BATON.search(e.path)]
    with suppress(OSError):  # one was let go just now
        for path, held in holders_of(found).items():
            pids = f"pid {', '.join(map(str, held.pids))}" if held.pids else ""
            state: LockState = "dead" if held.none else "silent" if held.pids else "elsewhere"
            yield LockFacts(str(path), "baton", state, pids, _quiet_s(path, now_s))


def _quiet_s(path: Path, now_s: float) -> float:
    try:
        return now_s - path.stat().st_mtime
    except OSError:
        return 0.0
