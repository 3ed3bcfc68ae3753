"""A fault in an otherwise healthy machine is found, by the check that is for it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from kboot.doctor import run_doctor
from kboot.events import Event
from kboot.host.paths import find_paths
from kboot.host.recorded import RecordedHost
from nodes.faults import FAULTS, xid
from nodes.plugin import MachineRoot

EXPECTED = {
    "cuda-refused": {"gpu.cuda_init": "fail", "gpu.count": "ok"},
    "cut-peers": {"gpu.p2p": "fail", "nvlink.links": "ok"},
    "dead-fabric-manager": {"fabric.manager": "fail", "fabric.state": "fail"},
    "full-disk": {"fit.disk": "fail"},
    "hung-nvml": {"gpu.nvml_responsive": "fail", "gpu.count": "unknown"},
    "io-errors": {"disk.errors": "warn"},
    "killed-for-memory": {"sys.oom": "warn"},
    "lost-gpu": {"gpu.count": "fail"},
    "lost-mount": {"disk.mounted": "fail"},
    "mismatched-library": {"gpu.driver_lib_match": "fail"},
    "no-inodes": {"fit.disk": "fail"},
    "other-fabric-manager": {"fabric.manager": "fail"},
    "read-only": {"disk.fs_ro": "fail", "disk.errors": "fail"},
    "refused-module": {"sys.secureboot": "fail", "gpu.count": "fail"},
    "stuck-process": {"sys.dstate": "warn"},
    "sxid": {"gpu.sxid": "fail"},
    "xid": {"gpu.xid_recent": "fail"},
}


def quiet(_: Event) -> None:
    """Emit to nobody."""


def statuses(root: Path) -> dict[str, str]:
    """Return what each check answers on a machine."""
    report = run_doctor(RecordedHost(root), find_paths(root, {}, 0), None, "quick", (), quiet)
    return {a.check.id: a.finding.status for a in report.findings}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_found_by_the_check_that_is_for_it(machine: MachineRoot, name: str) -> None:
    """The same machine without it has no finding."""
    root = machine("hgx-h100")
    FAULTS[name](root)
    found = statuses(root)

    assert EXPECTED[name] == {check: found[check] for check in EXPECTED[name]}


def test_without_a_fault_there_is_no_finding(machine: MachineRoot) -> None:
    """What the others are measured by."""
    assert {"ok", "skip"} == set(statuses(machine("hgx-h100")).values())


@pytest.mark.parametrize(("code", "status"), [(13, "ok"), (31, "ok"), (63, "warn"), (79, "fail"), (140, "fail")])
def test_xids_are_told_apart(machine: MachineRoot, code: int, status: str) -> None:
    """A program's fault, a row that was remapped, a GPU that is gone."""
    root = machine("hgx-h100")
    xid(root, code, "some words")

    assert status == statuses(root)["gpu.xid_recent"]


def test_several_faults_are_all_found(machine: MachineRoot) -> None:
    """One does not hide another."""
    root = machine("hgx-h100")
    for name in ("xid", "lost-gpu", "read-only", "lost-mount", "killed-for-memory"):
        FAULTS[name](root)
    found = statuses(root)

    assert {"fail"} == {found[c] for c in ("gpu.xid_recent", "gpu.count", "disk.fs_ro", "disk.mounted")}
    assert "warn" == found["sys.oom"]


def test_the_program_changes_a_tree(machine: MachineRoot) -> None:
    """By names; one that it does not know is a usage error that lists them."""
    root, program = machine("hgx-h100"), Path(__file__).with_name("faults.py")
    done = subprocess.run([sys.executable, str(program), str(root), "lost-gpu"], timeout=100, check=False)
    wrong = subprocess.run(
        [sys.executable, str(program), str(root), "x"], capture_output=True, timeout=100, check=False
    )

    assert (0, 2) == (done.returncode, wrong.returncode)
    assert b"hung-nvml" in wrong.stderr
    assert "fail" == statuses(root)["gpu.count"]
