"""Engines of an earlier start: recorded process tables, and real processes that lost their parent."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from fakes import records
from fakes.workers import running
from kboot.apply.leftovers import Leftover, find_leftovers, require_none_left
from kboot.errors import ActionFailed
from kboot.handoff import WorkerPlan
from kboot.host.real import RealHost
from kboot.host.recorded import RecordedHost

CASE = Path(__file__).parents[1] / "cases/B139"
TITLES = (r"^VLLM::Worker(?:_[A-Z]+\d+)*\s*$", r"^VLLM::EngineCor")
RECORD = replace(records.RECORD, worker_titles=TITLES)


def put(
    root: Path, pid: int, parent: int, session: int, words: str, *, cgroup: str = "/engine", state: str = "S"
) -> None:
    """Write what /proc shows of one process."""
    folder = root / f"proc/{pid}"
    folder.mkdir(parents=True)
    (folder / "cmdline").write_text(words.replace(" ", "\0"))
    (folder / "stat").write_text(f"{pid} (name) with) {state} {parent} {pid} {session} 0")
    (folder / "cgroup").write_text(f"0::{cgroup}\n")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A machine with its first process and nothing else."""
    put(tmp_path, 1, 0, 1, "/sbin/init", cgroup="/init.scope")
    return tmp_path


def test_orphans_that_hold_a_gpu_are_refused_by_name(root: Path) -> None:
    """B139: the front end was killed; its core and worker live on, and the refusal says who holds how much of what."""
    for line in (CASE / "ps.txt").read_text().splitlines()[1:]:
        pid, parent, title = line.split(maxsplit=2)
        put(root, int(pid), int(parent), 2200, title)
    (root / "nvml.json").write_text((CASE / "nvml.json").read_text())

    with pytest.raises(ActionFailed) as caught:
        require_none_left(RECORD, RecordedHost(root))

    said = f"{caught.value.message} {caught.value.where}"
    assert ("engine-left-over", "end it, then start again: `kill 2201 2202`") == (caught.value.code, caught.value.hint)
    assert "pid 2201 (VLLM::EngineCor): its parent has ended" in said
    assert "pid 2202 (VLLM::Worker_TP0): its parent has ended, holds 70 GiB of GPU 0" in said


def test_a_driver_that_hangs_does_not_say_what_is_held_and_that_is_told(root: Path) -> None:
    """An orphan may be on other GPUs: who reads the refusal knows why it is named all the same."""
    put(root, 2202, 1, 2200, "VLLM::Worker_TP0")
    (root / "nvml.json").write_text('{"nvml_init": "TIMEOUT", "detail": "no answer in 5 s"}')
    record = replace(RECORD, workers=(WorkerPlan(0, 3, (0,), 1, None),))

    with pytest.raises(ActionFailed) as caught:
        require_none_left(record, RecordedHost(root))

    assert ("what is held of which GPU is not known: the GPU driver hangs: no answer in 5 s",) == caught.value.where


def test_another_engine_that_serves_is_left_alone(root: Path) -> None:
    """Workers whose parent lives in their session belong to somebody."""
    put(root, 500, 1, 500, "/opt/vllm/bin/vllm serve /models/other")
    put(root, 501, 500, 500, "VLLM::EngineCore")
    put(root, 502, 501, 500, "VLLM::Worker_TP0")

    assert () == find_leftovers(RECORD, RecordedHost(root))


def test_an_engine_that_is_the_first_process_of_its_container_has_no_orphans(tmp_path: Path) -> None:
    """Process 1 may be an engine itself: its children are in its session."""
    put(tmp_path, 1, 0, 1, "/opt/vllm/bin/vllm serve /models/other")
    put(tmp_path, 7, 1, 1, "VLLM::Worker_TP0")

    assert () == find_leftovers(RECORD, RecordedHost(tmp_path))


def test_this_very_engine_running_already_is_found(root: Path) -> None:
    """Also when an interpreter stands before the script's name."""
    put(root, 500, 1, 500, "/usr/bin/python3 /opt/vllm/bin/vllm serve /models/p")

    assert (Leftover(500, "/usr/bin/python3 /opt/vllm/bin/vllm serve /models/p", orphan=False, ours=False),) == (
        find_leftovers(RECORD, RecordedHost(root))
    )


def test_what_is_dead_already_holds_nothing(root: Path) -> None:
    """A zombie waits for its parent only."""
    put(root, 2202, 1, 2200, "VLLM::Worker_TP0", state="Z")

    assert () == find_leftovers(RECORD, RecordedHost(root))


def test_an_orphan_on_other_gpus_is_not_in_the_way(root: Path) -> None:
    """It is known to hold GPU 0 only, and this engine has GPU 3."""
    put(root, 2202, 1, 2200, "VLLM::Worker_TP0")
    (root / "nvml.json").write_text((CASE / "nvml.json").read_text())

    require_none_left(replace(RECORD, workers=(WorkerPlan(0, 3, (0,), 1, None),)), RecordedHost(root))
    with pytest.raises(ActionFailed):
        require_none_left(RECORD, RecordedHost(root))


ORPHAN = """
import os, signal, sys, time
from kboot.demo import proc
if os.fork() == 0:
    proc.set_title("VLLM::Worker_TP77")
    os.write(1, str(os.getpid()).encode() + b"\\n")
    os.close(1)
    signal.pause()
time.sleep(float("inf"))
"""


@pytest.fixture
def orphan() -> Iterator[int]:
    """A live worker whose front end was killed."""
    argv = [sys.executable, "-c", ORPHAN, "a long argument that leaves room for a title"]
    front = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, start_new_session=True)
    assert front.stdout is not None
    pid = int(front.stdout.readline())
    front.kill()
    front.communicate()
    yield pid
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


ONE = replace(RECORD, worker_titles=(r"^VLLM::Worker_TP77\s*$",), workers=())


def test_a_dying_worker_of_our_own_is_waited_for(orphan: int) -> None:
    """It is in this process's cgroup and ends meanwhile: no refusal."""
    assert [(orphan, True, True)] == [(e.pid, e.orphan, e.ours) for e in find_leftovers(ONE, RealHost())]
    ending = subprocess.Popen(["sh", "-c", f"sleep 0.3; kill -9 {orphan}"])
    require_none_left(ONE, RealHost(), patience_s=30.0)
    ending.wait()

    assert () == find_leftovers(ONE, RealHost())


def test_waiting_for_our_own_has_a_bound(orphan: int) -> None:
    """One that does not end is refused after the patience, with its pid."""
    since_s = time.monotonic()

    with pytest.raises(ActionFailed, match=f"pid {orphan} "):
        require_none_left(ONE, RealHost(), patience_s=0.3)
    assert 0.3 <= time.monotonic() - since_s


def test_workers_with_a_living_parent_are_none(orphan: int) -> None:
    """Real workers under a real parent are not found, an orphan beside them is."""
    with running("VLLM::Worker_TP77=1"):
        assert [orphan] == [each.pid for each in find_leftovers(ONE, RealHost())]
