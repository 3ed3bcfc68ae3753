"""This machine, asked."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kboot.host.real import RealHost
from kboot.host.types import Printed


def test_this_machine_answers_what_the_kernel_says() -> None:
    """Affinity, user, and a file of /proc."""
    host = RealHost()

    assert (True, os.geteuid()) == (host.live, host.uid())
    assert frozenset(os.sched_getaffinity(0)) == host.affinity()
    assert "MemTotal:" in host.read_text("/proc/meminfo")
    assert {"nofile", "memlock"} <= set(host.limits())


def test_space_of_a_path_that_does_not_exist_is_its_parents(tmp_path: Path) -> None:
    """A state folder is judged before it is made."""
    total_bytes = RealHost().disk_space(str(tmp_path / "no" / "such" / "folder")).total_bytes

    assert total_bytes == RealHost().disk_space(str(tmp_path)).total_bytes > 0


def test_a_file_system_that_does_not_say_how_large_it_is_is_not_full() -> None:
    """quantcast/qfs#255: many that run as programs answer statfs with zeros, as /proc does."""
    with pytest.raises(OSError, match="does not say how much room"):
        RealHost().disk_space("/proc")


def test_absent_files_are_os_errors(tmp_path: Path) -> None:
    """Nothing is guessed."""
    host = RealHost()
    for ask in (host.read_text, host.names, host.link_target):
        with pytest.raises(OSError):
            ask(str(tmp_path / "no"))


def test_a_big_file_is_read_up_to_the_limit(tmp_path: Path) -> None:
    """1 MiB, or what is asked."""
    (tmp_path / "big").write_bytes(b"x" * (3 << 20))

    assert [1 << 20, 70_000] == [
        len(RealHost().read_text(str(tmp_path / "big"))),
        len(RealHost().read_text(str(tmp_path / "big"), 70_000)),
    ]


def test_a_program_runs_under_the_settings_of_nccl_and_without_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    """A test of the links measures what the engine will have; a token is nothing for it."""
    monkeypatch.setenv("NCCL_NVLS_ENABLE", "0")
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    printed = RealHost().program(("sh", "-c", "echo $NCCL_NVLS_ENABLE $HF_TOKEN"), 30.0)

    assert Printed(0, "0\n") == printed


def test_a_program_is_asked_in_english_and_inside_a_deadline() -> None:
    """Its output and status come back; one that is missing or does not end is an OSError."""
    host = RealHost()

    assert Printed(3, "C\n") == host.program(("sh", "-c", "echo $LC_ALL; exit 3"), 30.0)
    with pytest.raises(FileNotFoundError):
        host.program(("no-such-program",), 30.0)
    with pytest.raises(TimeoutError, match="no answer"):
        host.program(("sleep", "600"), 0.2)
