"""Locks whose holder is gone."""

from __future__ import annotations

import os
import socket
from pathlib import Path

from kboot.facts.kept_types import LockFacts
from kboot.facts.locks import collect_locks
from kboot.host.locks import lock_file
from kboot.host.paths import Paths
from kboot.host.real import RealHost

NOW_S = 1_800_000_000.0
NOBODY = 4_194_305  # above the largest pid that a kernel gives


def paths_in(tmp_path: Path) -> Paths:
    """Return folders with a state in them."""
    paths = Paths(tmp_path / "state", tmp_path / "run", tmp_path / "etc")
    for folder in (paths.hub / ".locks/models--org--m", paths.cache / "key/torch-extensions/py311/x", paths.runtime):
        folder.mkdir(parents=True)
    return paths


def put(path: Path, text: str) -> str:
    """Write a lock file that is an hour old."""
    path.write_text(text)
    os.utime(path, (NOW_S - 3600, NOW_S - 3600))
    return str(path)


def test_markers_of_the_hubs_client_are_judged_by_their_holder(tmp_path: Path) -> None:
    """Its process is gone, works still, or is another machine's; an empty file is a lock that goes with its process."""
    paths = paths_in(tmp_path)
    folder, here = paths.hub / ".locks/models--org--m", socket.gethostname()
    dead = put(folder / "a.lock", f"{NOBODY}\n{here}\n")
    alive = put(folder / "b.lock", f"{os.getpid()}\n{here}\n")
    far = put(folder / "c.lock", "71\nnode-9.example\n")
    put(folder / "d.lock", "")

    assert [
        LockFacts(dead, "file", "dead", f"pid {NOBODY} on {here}", 3600.0),
        LockFacts(alive, "file", "silent", f"pid {os.getpid()} on {here}", 3600.0),
        LockFacts(far, "file", "elsewhere", "pid 71 on node-9.example", 3600.0),
    ] == list(collect_locks(RealHost(), paths, NOW_S))


def test_a_baton_without_a_holder_is_dead(tmp_path: Path) -> None:
    """torch waits as long as the file exists; one that a process has open is in use."""
    paths = paths_in(tmp_path)
    baton = paths.cache / "key/torch-extensions/py311/x/lock"
    path = put(baton, "")
    (found,) = collect_locks(RealHost(), paths, NOW_S)
    assert (path, "baton", "dead") == (found.path, found.kind, found.state)

    with baton.open():
        (held,) = collect_locks(RealHost(), paths, NOW_S)
    assert ("silent", f"pid {os.getpid()}") == (held.state, held.holder)


def test_kboots_own_locks_go_with_their_process(tmp_path: Path) -> None:
    """The file stays and means nothing; while it is held, its holder is named."""
    paths = paths_in(tmp_path)
    lock = lock_file(paths.runtime / "boot.lock", 0)
    with lock:
        (held,) = collect_locks(RealHost(), paths, NOW_S)
        assert (f"pid {os.getpid()}", "silent") == (held.holder, held.state)
    assert () == collect_locks(RealHost(), paths, NOW_S)


def test_no_folder_is_no_lock(tmp_path: Path) -> None:
    """A new node has none."""
    assert () == collect_locks(RealHost(), Paths(tmp_path / "s", tmp_path / "r", tmp_path / "e"), NOW_S)
