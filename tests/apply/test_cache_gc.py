"""Removes kernel caches that were chosen; what is half removed never has the name of a cache."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from fakes.caches import cache_files, content, make_cache
from kboot.apply.cache_gc import list_aside, remove_caches
from kboot.apply.cache_quarantine import quarantine
from kboot.errors import ActionFailed
from kboot.host.locks import lock_file
from kboot.plan.types import QuarantineCache


def named(cache: Path) -> list[str]:
    """Return what lies in the cache folder, kboot's lock left out."""
    return sorted(p.name for p in cache.iterdir() if p.name != ".lock")


def test_only_what_was_chosen_goes(tmp_path: Path) -> None:
    """The others are as they were; what is not there any more is no error."""
    make_cache(tmp_path, "old")
    kept = make_cache(tmp_path, "now")
    before = content(kept)
    removed = remove_caches(tmp_path, ["old", "gone"], ())

    assert (("old", "gone"), ()) == (removed.keys, removed.kept)
    assert (["now"], before) == (named(tmp_path), content(kept))


def test_a_folder_that_a_running_process_was_given_stays(tmp_path: Path) -> None:
    """An engine may still serve with a key that no boot uses any more."""
    folder = make_cache(tmp_path, "old")
    with subprocess.Popen(
        [sys.executable, "-c", "import sys; print(flush=True); sys.stdin.read()"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={"TRITON_CACHE_DIR": f"{folder}/triton"},
    ) as engine:  # fmt: skip
        assert engine.stdout is not None and engine.stdin is not None
        engine.stdout.readline()
        removed = remove_caches(tmp_path, ["old"], ())
        engine.stdin.close()

    assert ((), f"process {engine.pid} was started with it") == (removed.keys, removed.kept[0][1])
    assert ["old"] == named(tmp_path)


def test_what_was_put_aside_can_be_listed_and_removed(tmp_path: Path) -> None:
    """The quarantine has a way out."""
    folder = make_cache(tmp_path, "now", {"triton/A/k.json": b""})
    quarantine((QuarantineCache(str(folder), "triton/A", "triton/A/k.json", "torn by a crash: x"),))
    (entry,) = list_aside(tmp_path)
    remove_caches(tmp_path, (), (entry,))

    assert entry.path.startswith("now/")
    assert () == list_aside(tmp_path)


def test_an_import_under_way_keeps_a_clean_up_out(tmp_path: Path) -> None:
    """Its half-filled folder is not swept from under it."""
    (tmp_path / ".kboot-import-1.tmp").mkdir()
    with lock_file(tmp_path / ".lock", 1.0), pytest.raises(ActionFailed) as caught:
        remove_caches(tmp_path, (), (), lock_wait_s=0.1)

    assert "locked" == caught.value.code
    assert 1 == remove_caches(tmp_path, (), ()).swept


STEPS = {"open", "fsync", "replace", "rename", "unlink", "rmdir", "scandir", "close"}


def killed_before(step: int, cache: Path) -> bool:
    """Remove the old key in a process that is killed before its n-th change; return whether it was."""
    if not (pid := os.fork()):
        count = step

        def watch(_frame: object, event: str, function: object) -> None:
            nonlocal count
            if event == "c_call" and getattr(function, "__name__", "") in STEPS:
                count -= 1
                if not count:
                    os.kill(os.getpid(), signal.SIGKILL)

        sys.setprofile(watch)
        remove_caches(cache, ["old"], ())
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL


@pytest.mark.parametrize("stride", [40, pytest.param(5, marks=pytest.mark.slow)])
def test_killed_at_any_step_a_key_is_whole_or_gone(memory_path: Path, stride: int) -> None:
    """Half a cache never has a key's name; the next clean-up takes away what was left."""
    files = {path: data for path, data in cache_files().items() if len(data) < 10_000}
    for step in range(1, 3000, stride):
        cache = memory_path / str(step)
        folder = make_cache(cache, "old", files)
        whole = content(folder)
        killed = killed_before(step, cache)
        assert not folder.exists() or whole == content(folder)
        if not killed:
            break
        remove_caches(cache, ["old"], ())
        assert [] == named(cache)

    assert not killed
    assert step > 100
