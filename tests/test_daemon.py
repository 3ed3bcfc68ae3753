"""The daemon as a process, seen from its service manager and from its socket."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from fakes.service_manager import DEADLINE_S, ServiceManager
from kboot.errors import ProfileError, SourceError
from kboot.host.inbox import ask
from kboot.report.types import BootReport, BootStatus
from kboot.report.verdict import is_transient, judge

FAKES = Path(__file__).parent / "fakes"


@contextmanager
def daemon(
    folder: Path, manager: ServiceManager, *words: str, stall_s: float = 60.0, give_up_s: float = 60.0
) -> Iterator[subprocess.Popen[str]]:
    argv = [sys.executable, str(FAKES / "scripted_daemon.py"), str(folder), str(stall_s), str(give_up_s), *words]
    process = subprocess.Popen(argv, env=manager.env, stderr=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def keys(manager: ServiceManager) -> set[str]:
    return {key for message in manager.messages for key in message}


def test_ready_is_said_once_and_only_with_a_record(tmp_path: Path) -> None:
    """READY=1 comes once, when the hand-off record exists; before it, systemd is asked for time at once."""
    with ServiceManager() as manager, daemon(tmp_path, manager, "done"):
        ready = manager.wait_for_key("READY")

        assert {"READY": "1", "STATUS": "ready: p is prepared"} == ready
        assert (tmp_path / "handoff.json").exists()
        assert "EXTEND_TIMEOUT_USEC" in manager.messages[0]


def test_a_node_is_ready_before_its_boot_has_warmed_all(tmp_path: Path) -> None:
    """READY=1 comes when the node is prepared, and once: the engine imports while what is left is read."""
    with ServiceManager() as manager, daemon(tmp_path, manager, "warming") as process:
        assert {"READY": "1", "STATUS": "ready: p is prepared"} == manager.wait_for_key("READY")
        assert "ready" == ask(tmp_path / "kboot.sock", {"ask": "status"}, DEADLINE_S)["state"]
        (tmp_path / "go").touch()
        manager.wait_for_key("STATUS")
        process.terminate()
        manager.wait_for_key("STOPPING")

        assert 1 == sum("READY" in message for message in manager.messages)


def test_a_boot_without_a_record_is_not_ready(tmp_path: Path) -> None:
    """A boot that claims success but left no record ends the daemon with status 13."""
    with ServiceManager() as manager, daemon(tmp_path, manager, "bare") as process:
        manager.wait_for_key("STOPPING")

        assert 13 == process.wait(DEADLINE_S)
        assert "READY" not in keys(manager)


def test_a_degraded_boot_serves_and_says_so(tmp_path: Path) -> None:
    """Degraded is ready, and the status line names it."""
    with ServiceManager() as manager, daemon(tmp_path, manager, "degraded"):
        assert "ready, degraded: see `kboot timeline`" == manager.wait_for_key("READY")["STATUS"]


def test_a_permanent_error_ends_with_its_status(tmp_path: Path) -> None:
    """B137: a profile that is not valid ends the daemon at once with status 10, which the unit does not restart."""
    with ServiceManager() as manager, daemon(tmp_path, manager, "refused") as process:
        assert "unknown-profile: there is no profile x" == manager.wait_for_key("STOPPING")["STATUS"]
        assert 10 == process.wait(DEADLINE_S)


def test_an_unreachable_source_is_waited_for_inside(tmp_path: Path) -> None:
    """B132: an unreachable source does not end the process; it waits with a status, asks for time and tries again."""
    with ServiceManager() as manager, daemon(tmp_path, manager, "away", "away", "done"):
        waiting = manager.wait_for(lambda m: m.get("STATUS", "").startswith("waiting"))
        manager.wait_for_key("READY")

        assert "waiting to try again: no answer from the hub" == waiting["STATUS"]
        assert "STOPPING" not in keys(manager)


def test_waiting_for_a_source_has_a_bound(tmp_path: Path) -> None:
    """A source that stays away ends the daemon with status 17 after give_up_s."""
    with ServiceManager() as manager, daemon(tmp_path, manager, "away", give_up_s=0.1) as process:
        manager.wait_for_key("STOPPING")

        assert 17 == process.wait(DEADLINE_S)


def test_a_crash_is_a_bug_with_its_traceback(tmp_path: Path) -> None:
    """An unexpected exception in a boot ends the daemon with status 1, and the log has the traceback."""
    with ServiceManager() as manager, daemon(tmp_path, manager, "crash") as process:
        _, log = process.communicate(timeout=DEADLINE_S)

        assert 1 == process.returncode
        assert "RuntimeError: a bug" in log


def test_progress_asks_for_more_time_and_feeds_the_watchdog(tmp_path: Path) -> None:
    """B126: while files come in, EXTEND_TIMEOUT_USEC, STATUS and WATCHDOG=1 go out again and again."""
    with ServiceManager(watchdog_s=10.0) as manager, daemon(tmp_path, manager, "files", stall_s=9.0):
        assert {"EXTEND_TIMEOUT_USEC": "9000000"} == manager.receive()
        for _ in range(3):
            manager.wait_for(lambda m: m.get("STATUS", "").startswith("fetch "))
            manager.wait_for_key("WATCHDOG")
            assert {"EXTEND_TIMEOUT_USEC": "9000000"} == manager.wait_for_key("EXTEND_TIMEOUT_USEC")


def test_a_boot_that_stands_still_is_not_defended(tmp_path: Path) -> None:
    """A boot that reports the same byte over and over gets neither more time nor a watchdog feed."""
    with (
        ServiceManager(watchdog_s=0.1) as manager,
        daemon(tmp_path, manager, "stuck", stall_s=0.2) as process,
    ):
        manager.wait_for(lambda m: m.get("STATUS", "").startswith("fetch"))

        assert manager.falls_silent(for_s=2.0)
        assert process.poll() is None


@pytest.mark.parametrize("word", ["files", "stuck", "done", "away"])
@pytest.mark.parametrize(("name", "status"), [("SIGTERM", 0), ("SIGINT", 130)])
def test_it_stops_cleanly_whatever_it_is_doing(tmp_path: Path, word: str, name: str, status: int) -> None:
    """SIGTERM ends it with 0 and SIGINT with 130, while fetching, stuck, ready or waiting; the socket is gone."""
    with ServiceManager() as manager, daemon(tmp_path, manager, word) as process:
        manager.wait_for(lambda m: "READY" in m or m.get("STATUS", "").startswith(("fetch", "waiting")))
        process.send_signal(getattr(signal, name))

        assert f"stopping on {name}" == manager.wait_for_key("STOPPING")["STATUS"]
        assert status == process.wait(DEADLINE_S)
        assert not (tmp_path / "kboot.sock").exists()


def test_hangup_boots_again_and_is_a_reload_to_systemd(tmp_path: Path) -> None:
    """SIGHUP on a ready node goes RELOADING=1 … READY=1."""
    with ServiceManager() as manager, daemon(tmp_path, manager, "done", "degraded") as process:
        manager.wait_for_key("READY")
        process.send_signal(signal.SIGHUP)

        assert "MONOTONIC_USEC" in manager.wait_for_key("RELOADING")
        assert "ready, degraded: see `kboot timeline`" == manager.wait_for_key("READY")["STATUS"]


def test_a_reload_that_fails_keeps_the_node_serving(tmp_path: Path) -> None:
    """A profile broken by an edit does not take a ready node down: the old record holds and the status says why."""
    with ServiceManager() as manager, daemon(tmp_path, manager, "done", "refused") as process:
        manager.wait_for_key("READY")
        process.send_signal(signal.SIGHUP)

        assert "ready, degraded: there is no profile x" == manager.wait_for_key("READY")["STATUS"]
        assert process.poll() is None
        assert "unknown-profile" == ask(tmp_path / "kboot.sock", {"ask": "status"}, DEADLINE_S)["error"]["code"]


def test_hangup_during_a_boot_is_done_after_it(tmp_path: Path) -> None:
    """A reload asked for while a boot runs is not lost: it follows when that boot has ended."""
    with ServiceManager() as manager, daemon(tmp_path, manager, "slow", "done") as process:
        manager.wait_for(lambda m: m.get("STATUS", "").startswith("fetch"))
        process.send_signal(signal.SIGHUP)
        assert "preparing" == ask(tmp_path / "kboot.sock", {"ask": "status"}, DEADLINE_S)["state"]
        (tmp_path / "go").touch()

        manager.wait_for_key("READY")
        manager.wait_for_key("RELOADING")
        manager.wait_for_key("READY")


def test_status_is_one_document_with_the_phases(tmp_path: Path) -> None:
    """The socket answers what `kboot status --json` prints."""
    with ServiceManager() as manager, daemon(tmp_path, manager, "done"):
        manager.wait_for_key("READY")
        status = ask(tmp_path / "kboot.sock", {"ask": "status"}, DEADLINE_S)

    assert (1, "status", "p", "ready", None) == tuple(
        status[k] for k in ("schema", "kind", "profile", "state", "error")
    )
    (phase,) = status["phases"]
    assert phase.pop("seconds") >= 0
    assert {
        "name": "fetch",
        "status": "running",
        "done_bytes": 1_000_000,
        "total_bytes": 3_000_000,
        "files_done": 1,
    } == phase


def test_a_node_that_stands_by_is_ready_and_says_that_it_does_not_serve(tmp_path: Path) -> None:
    """READY=1 comes all the same; state and text say standby, and change at the first request after `kboot live`."""
    (tmp_path / "hold").touch()
    with ServiceManager() as manager, daemon(tmp_path, manager, "done"):
        standby = "standby: p is warm, not serving; `kboot live` starts its engine"
        assert standby == manager.wait_for_key("READY")["STATUS"]
        held = ask(tmp_path / "kboot.sock", {"ask": "status"}, DEADLINE_S)
        (tmp_path / "hold").unlink()
        live = ask(tmp_path / "kboot.sock", {"ask": "status"}, DEADLINE_S)
        told = manager.wait_for_key("STATUS")["STATUS"]

    assert (("standby", standby), ("ready", told)) == tuple((doc["state"], doc["text"]) for doc in (held, live))
    assert "ready: p is prepared" == told


def test_an_announced_end_is_shown_while_the_engine_is_being_stopped(tmp_path: Path) -> None:
    """From the notice to the end the daemon answers, with who said so; it ends with 0 when the engine has."""
    with ServiceManager() as manager, daemon(tmp_path, manager, "done") as process:
        manager.wait_for_key("READY")
        (tmp_path / "notice").write_text("terminate at 06:30Z")
        assert "this machine is taken away" in manager.wait_for_key("STOPPING")["STATUS"]
        doc = ask(tmp_path / "kboot.sock", {"ask": "status"}, DEADLINE_S)
        (tmp_path / "drained").touch()

        assert 0 == process.wait(DEADLINE_S)
    assert ("stopping", f"file:{tmp_path}/notice".partition(":")[2] + ": terminate at 06:30Z") == (
        doc["state"],
        doc["reclaim"],
    )


@pytest.mark.parametrize("line", [b"hello\n", b"{}\n", b'{"ask": "reboot"}\n', b"[]\n"])
def test_a_request_it_does_not_know_is_answered_with_an_error(tmp_path: Path, line: bytes) -> None:
    """Garbage on the socket gets an error document and harms nothing."""
    with ServiceManager() as manager, daemon(tmp_path, manager, "done"):
        manager.wait_for_key("READY")
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
            client.settimeout(DEADLINE_S)
            client.connect(str(tmp_path / "kboot.sock"))
            client.sendall(line)
            answer = json.loads(client.makefile("rb").readline())

        assert ("error", "unknown-request") == (answer["kind"], answer["error"]["code"])
        assert "ready" == ask(tmp_path / "kboot.sock", {"ask": "status"}, DEADLINE_S)["state"]


def boot_report(status: BootStatus, error: ProfileError | None = None) -> BootReport:
    return BootReport("b", "p", "c", status, 0.0, 1.0, None, None, "ledger", "", "k", (), (), (), error)


def test_a_failed_report_is_judged_by_its_own_error() -> None:
    """The daemon ends with the error the boot reports."""
    error = ProfileError("profile-not-valid", "x")

    assert error is judge(boot_report("failed", error), record_exists=True)


@pytest.mark.parametrize("status", ["failed", "interrupted"])
def test_a_report_without_an_error_still_fails(status: BootStatus) -> None:
    """A boot that did not end well is never ready, record or not."""
    error = judge(boot_report(status), record_exists=True)

    assert error is not None and f"the boot ended as {status}" == error.message


def test_only_sources_that_may_come_back_are_transient() -> None:
    """401, 403 and 404, and everything that is not a source, are not waited for."""
    assert is_transient(SourceError("source-unreachable", "x", retry=True))
    assert not is_transient(SourceError("unauthorized", "x"))
    assert not is_transient(ProfileError("unknown-profile", "x"))
