"""What does a command say where it may not read?"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from cli_run import Kboot, Ran

SETPRIV = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"]
"""Makes root one who may read only what the modes of files allow."""


@pytest.fixture
def locked(tmp_path: Path) -> Iterator[Path]:
    """Return a folder that nobody may enter."""
    folder = tmp_path / "locked"
    folder.mkdir()
    folder.chmod(0)
    yield folder
    folder.chmod(0o700)


def limited(kboot: Kboot, *args: str, **env: str) -> Ran:
    """Run the command line as a user for whom the modes of files count."""
    drop = SETPRIV if os.geteuid() == 0 else []
    if drop and subprocess.run([*drop, "true"], capture_output=True).returncode:
        pytest.skip("this root may not give up its rights")
    argv = [*drop, sys.executable, "-m", "kboot", *args]
    done = subprocess.run(
        argv, capture_output=True, text=True, timeout=60, env={**kboot.environ, **env}, stdin=subprocess.DEVNULL
    )
    return Ran(done.returncode, done.stdout, done.stderr)


@pytest.mark.parametrize(
    "line",
    [
        "plan --profile demo",
        "fetch --profile demo",
        "verify --profile demo",
        "license show --profile demo",
        "timeline",
        "cache status",
        "cache explain",
    ],
)
def test_state_that_may_not_be_read_is_neither_empty_nor_a_bug(kboot: Kboot, locked: Path, line: str) -> None:
    """The refusal is the error, with the folder and the next step: no "no boot yet", no traceback."""
    ran = limited(kboot, *line.split(), KBOOT_STATE_DIR=str(locked / "state"))

    assert 13 == ran.status, ran
    assert "error: permission-denied" in ran.err
    assert str(locked / "state") in ran.err.replace("\n", "")
    assert "run with sudo or join group kboot" in " ".join(ran.err.split())


def test_a_runtime_folder_that_may_not_be_read_is_not_a_node_without_a_boot(kboot: Kboot, locked: Path) -> None:
    """`kboot status` does not say "none" of what it cannot see."""
    ran = limited(kboot, "status", KBOOT_RUNTIME_DIR=str(locked / "run"))

    assert 13 == ran.status, ran
    assert "error: permission-denied" in ran.err


def test_doctor_does_not_call_a_disk_good_that_it_cannot_see(kboot: Kboot, locked: Path) -> None:
    """The checks of kboot's own disk are unknown there; doctor goes on with the rest."""
    ran = limited(kboot, "doctor", "--json", "--check", "disk.*", KBOOT_STATE_DIR=str(locked / "state"))
    found = {f["id"]: f["status"] for f in ran.doc["findings"]}

    assert {"unknown"} == {found["disk.fs_ro"], found["disk.mount_kind"]}


@pytest.mark.parametrize(("name", "status"), [("EACCES", 13), ("EPERM", 13), ("EROFS", 13), ("ENOSPC", 15)])
def test_what_any_step_may_meet_is_not_called_a_bug(
    kboot: Kboot, quick_script: Callable[[str], str], name: str, status: int
) -> None:
    """A refusal or a full disk that no step expected still ends as an error with its place."""
    ran = kboot.script(quick_script(f"import errno; raise OSError(errno.{name}, 'no', '/data/x')"))

    assert status == ran.status
    assert "/data/x" in ran.err
    assert "bug" not in ran.err


def test_any_other_failure_of_the_system_stays_a_bug(kboot: Kboot, quick_script: Callable[[str], str]) -> None:
    """A missing file that no step expected is kboot's own fault."""
    assert 1 == kboot.script(quick_script("open('/nonexistent/x')")).status
