"""`kboot status`: what does the running boot do, or how did the last one end?"""

from __future__ import annotations

import json
import socket
import threading
from dataclasses import replace

import pytest
from cli_run import Kboot
from report_samples import T0, demo_boot, failed_boot

from kboot.events import FileProgress, FileTrouble, PhaseStarted
from kboot.host.paths import Paths
from kboot.host.real import RealHost
from kboot.report.progress import Tracker
from kboot.report.saved import RunningBoot, process_mark, progress_json, save_report, write_progress
from kboot.report.types import WorkerCheck


@pytest.fixture
def paths(kboot: Kboot) -> Paths:
    """The folders of the command line under test."""
    return Paths(kboot.folder / "state", kboot.folder / "run", kboot.folder / "etc")


def running() -> RunningBoot:
    """A boot of this very process, in the middle of its fetch."""
    tracker = Tracker(lambda _event: None)
    tracker.emit(PhaseStarted("fetch", 2, 1000))
    tracker.emit(FileProgress("fetch", "a", 0, 1000))
    tracker.emit(FileProgress("fetch", "a", 400, 1000))
    tracker.emit(FileTrouble("fetch", "b", "shard-hash-mismatch", "sha256 is 9c, wanted 41", final=True))
    pid, mark = process_mark(RealHost(), "self")
    return RunningBoot("7f3a", "demo", pid, mark, T0, T0 + 5, progress_json(tracker.view()))


def test_a_node_that_never_booted_says_so(kboot: Kboot) -> None:
    """No boot is a state, not an error."""
    assert (0, "none") == (kboot("status", "--json").status, kboot("status", "--json").doc["state"])
    assert "no boot of this node" in kboot("status").out


def test_a_running_boot_shows_phase_bytes_and_failures(kboot: Kboot, paths: Paths) -> None:
    """While its process lives, the boot is running, with phase, bytes and files that failed."""
    write_progress(running(), paths)
    doc, text = kboot("status", "--json"), kboot("status").out

    assert (0, "status", "running") == (doc.status, doc.doc["kind"], doc.doc["state"])
    assert ("fetch", 400) == (doc.doc["phases"][0]["name"], doc.doc["phases"][0]["done_bytes"])
    assert "400 B of 1.00 kB" in text
    assert "shard-hash-mismatch" in text


def test_a_boot_whose_process_died_is_not_running(kboot: Kboot, paths: Paths) -> None:
    """Progress left by a killed process is called that, whoever has its number now."""
    write_progress(replace(running(), process="1"), paths)
    ran = kboot("status", "--json")

    assert (3, "died") == (ran.status, ran.doc["state"])
    assert "ended without a report" in ran.doc["text"]


def test_the_last_boot_shows_how_it_ended(kboot: Kboot, paths: Paths) -> None:
    """Without a running boot the last one is shown; one that failed has status 3 and its error."""
    save_report(demo_boot(), paths)
    assert (0, "done") == (kboot("status", "--json").status, kboot("status", "--json").doc["state"])

    save_report(failed_boot(), paths)
    ran = kboot("status")

    assert 3 == ran.status
    assert "shard-hash-mismatch" in ran.out
    assert "hint: take the mirror out" in ran.out
    assert "fetch  failed  61.0 GB\n" in ran.out  # of how much is not on record

    save_report(replace(failed_boot(), status="interrupted", started_unix_s=T0 + 1), paths)
    assert "was interrupted after" in kboot("status").out


def test_the_last_boots_workers_are_shown_with_what_is_off_plan(kboot: Kboot, paths: Paths) -> None:
    """Planned and found for each worker, in both forms; what is off plan names the pid."""
    off = "worker 1 (pid 22): 3 of 9 threads may run on CPUs 0-7, planned 4-7"
    alike = {"gpu": None, "found_by": "title", "planned_threads": 4, "reported_threads": 4, "throttled_s": None}
    counted = {"run_s": 9.0, "wait_s": 1.0, "preempted": 3}
    first = WorkerCheck(0, pid=21, planned_cpus=(0, 1, 2, 3), found_cpus=(0, 1, 2, 3), tasks=9, stray_tasks=0,
                        findings=(), **alike, **counted)  # type: ignore[arg-type]  # fmt: skip
    second = replace(first, worker=1, pid=22, planned_cpus=(4, 5, 6, 7), found_cpus=tuple(range(8)), stray_tasks=3,
                     findings=(off,))  # fmt: skip
    save_report(replace(demo_boot(), workers=(first, second)), paths)
    doc, text = kboot("status", "--json").doc, kboot("status").out

    assert [(0, 21, 0, 0.1, []), (1, 22, 3, 0.1, [off])] == [
        (w["worker"], w["pid"], w["stray_tasks"], w["wait_share"], w["findings"]) for w in doc["workers"]
    ]
    words = " ".join(text.split())
    assert "worker 0 pid 21 CPUs 0-3, as planned; loaded with 4 threads, 9 in all; waited 10 % for a CPU" in words
    assert f"off plan {off}" in words


def test_a_daemon_is_asked_first(kboot: Kboot, paths: Paths) -> None:
    """Where a daemon listens, its answer is the status."""
    save_report(failed_boot(), paths)
    answer = {"schema": 1, "kind": "status", "profile": "demo", "state": "ready", "text": "demo is prepared"}
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(paths.socket))
        server.listen()
        thread = threading.Thread(target=answer_once, args=(server, answer))
        thread.start()
        ran = kboot("status", "--json")
        thread.join()

    assert (0, "ready", "daemon") == (ran.status, ran.doc["state"], ran.doc["source"])


def answer_once(server: socket.socket, answer: dict[str, object]) -> None:
    """Give one client this answer."""
    client, _ = server.accept()
    with client:
        assert json.loads(client.makefile().readline()) == {"ask": "status"}
        client.sendall(json.dumps(answer).encode() + b"\n")


def test_a_socket_that_nobody_listens_on_falls_back_to_the_records(kboot: Kboot, paths: Paths) -> None:
    """A daemon that died leaves its socket: the records are shown, and the silence is said."""
    save_report(demo_boot(), paths)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(paths.socket))
    ran = kboot("status", "--json")

    assert "done" == ran.doc["state"]
    assert "the daemon does not answer" in ran.err
