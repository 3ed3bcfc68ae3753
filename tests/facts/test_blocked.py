"""Processes that wait for what does not answer."""

from __future__ import annotations

from pathlib import Path

from kboot.facts.blocked import collect_blocked
from kboot.facts.reader import Reader
from kboot.facts.upkeep_types import Blocked
from kboot.host.real import RealHost
from kboot.host.recorded import RecordedHost

REST = " ".join(str(n) for n in range(3, 52))


def test_a_process_in_uninterruptible_sleep_is_named(tmp_path: Path) -> None:
    """With what it waits in; a name with blanks and brackets is a name, other states do not count."""
    for pid, name, state in ((71, "cat (a) b", "D"), (72, "idle", "S"), (73, "gone", "Z")):
        folder = tmp_path / f"proc/{pid}"
        folder.mkdir(parents=True)
        (folder / "stat").write_text(f"{pid} ({name}) {state} {REST}\n")
        (folder / "status").write_text("voluntary_ctxt_switches:\t5\nnonvoluntary_ctxt_switches:\t1\n")
        (folder / "wchan").write_text("rpc_wait_bit_killable")

    assert (Blocked(71, "cat (a) b", 5.0, "rpc_wait_bit_killable"),) == collect_blocked(
        Reader(RecordedHost(tmp_path)), 5.0
    )


def test_a_recording_without_processes_was_not_looked_at(tmp_path: Path) -> None:
    """None is not the same as no process."""
    assert collect_blocked(Reader(RecordedHost(tmp_path)), 1.0) is None


def test_this_machine_can_be_looked_at() -> None:
    """A process that runs meanwhile is not stuck; the look ends by itself."""
    found = collect_blocked(Reader(RealHost()), 0.0)

    assert found is not None
    assert all(process.pid > 0 for process in found)
