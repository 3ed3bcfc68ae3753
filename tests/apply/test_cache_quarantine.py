"""Moves entries of a kernel cache that an engine must not find to where a person can look at them."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

import pytest

from kboot.apply.cache_quarantine import RECORD, quarantine
from kboot.plan.types import QuarantineCache

TORN = "torn by a crash: triton/A/k.json has 0 bytes"


def action(key: Path, entry: str = "triton/A", file: str = "triton/A/k.json", reason: str = TORN) -> QuarantineCache:
    """Move one entry."""
    return QuarantineCache(str(key), entry, file, reason)


@pytest.fixture
def key(tmp_path: Path) -> Path:
    """A key's folder with a torn and a whole entry, and a lock."""
    folder = tmp_path / "cache/sm90"
    for name, text in (("A", ""), ("B", "{}")):
        (folder / "triton" / name).mkdir(parents=True)
        (folder / "triton" / name / "k.json").write_text(text)
        (folder / "triton" / name / "k.cubin").write_text("kernel")
    (folder / "torch-extensions/m").mkdir(parents=True)
    (folder / "torch-extensions/m/lock").touch()
    return folder


def moved(key: Path) -> list[Path]:
    """Return the folders in the quarantine of this key."""
    place = key.parent / ".quarantine" / key.name
    return sorted(place.iterdir()) if place.exists() else []


def test_an_entry_is_moved_whole_with_the_reason(key: Path) -> None:
    """It is gone from the cache, kept beside it, and says why and from where; the rest is untouched."""
    (outcome,) = quarantine((action(key),))
    (place,) = moved(key)
    record = json.loads((place / RECORD).read_text())

    assert ("done", str(place / "triton/A")) == (outcome.status, outcome.after)
    assert ["k.cubin", "k.json"] == sorted(p.name for p in (place / "triton/A").iterdir())
    assert (TORN, str(key)) == (record["reason"], record["path"])
    assert ["B"] == [p.name for p in (key / "triton").iterdir()]


def test_what_is_whole_by_now_or_gone_is_left(key: Path) -> None:
    """Between plan and action an engine may have written the file again, or another kboot moved it."""
    (key / "triton/A/k.json").write_text("{}")
    whole, gone = quarantine((action(key), action(key, "x", "x")))

    assert ["unchanged", "unchanged"] == [whole.status, gone.status]
    assert [] == moved(key)


def test_what_a_process_has_open_is_left(key: Path) -> None:
    """A live build keeps its lock, a live engine its files."""
    lock = "torch-extensions/m/lock"
    with (key / lock).open():
        (outcome,) = quarantine((action(key, lock, lock, "a lock without a live holder"),))
    assert ("unchanged", f"left: process {os.getpid()} may have it open") == (outcome.status, outcome.after)

    (outcome,) = quarantine((action(key, lock, lock, "a lock without a live holder"),))
    assert "done" == outcome.status
    assert not (key / lock).exists()


def test_the_same_entry_can_be_moved_twice(key: Path) -> None:
    """What is torn again at the next boot does not fall onto what was moved before."""
    quarantine((action(key),))
    (key / "triton/A").mkdir()
    (key / "triton/A/k.json").touch()
    quarantine((action(key),))

    assert 2 == len(moved(key))


STEPS = {"open", "write", "fsync", "replace", "rename", "unlink", "mkdir", "chmod", "fchmod", "close"}


def killed_before(step: int, key: Path) -> bool:
    """Move the entry in a process that is killed before its n-th change; return whether it was."""
    if not (pid := os.fork()):
        left = step

        def watch(_frame: object, event: str, function: object) -> None:
            nonlocal left
            if event == "c_call" and getattr(function, "__name__", "") in STEPS:
                left -= 1
                if not left:
                    os.kill(os.getpid(), signal.SIGKILL)

        sys.setprofile(watch)
        quarantine((action(key),))
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL


def test_killed_at_any_step_the_entry_is_whole_in_one_place(key: Path) -> None:
    """Either it is still in the cache, or it is in the quarantine with its reason; the next run finishes."""
    for step in range(1, 100):
        alive = not killed_before(step, key)
        kept = [place for place in moved(key) if (place / "triton/A/k.cubin").exists()]
        assert (key / "triton/A/k.cubin").exists() != bool(kept)
        assert all((place / RECORD).exists() for place in kept)
        if alive:
            break
        if kept:
            (key / "triton").mkdir(exist_ok=True)
            (kept[0] / "triton/A").rename(key / "triton/A")
    assert alive
    assert step > 10
