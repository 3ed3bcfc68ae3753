"""Does a folder keep what compilers' caches rely on? Found by trying."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from kboot.errors import ActionFailed
from kboot.host.trial import try_folder


def test_a_local_disk_keeps_everything_and_nothing_is_left(tmp_path: Path) -> None:
    """Locks, renames, times and mapped code work; no file stays behind."""
    assert () == try_folder(tmp_path)
    assert [] == list(tmp_path.iterdir())


def test_a_folder_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    """With the path and what to do."""
    with pytest.raises(ActionFailed):
        try_folder(tmp_path / "none")


@pytest.fixture
def noexec(tmp_path: Path) -> Iterator[Path]:
    """A mount that allows no code to be run from it."""
    place = tmp_path / "noexec"
    place.mkdir()
    tried = subprocess.run(
        [shutil.which("mount") or "mount", "-t", "tmpfs", "-o", "noexec,size=1m", "none", place], capture_output=True
    )
    if os.geteuid() != 0 or tried.returncode:
        pytest.skip("only root mounts")
    yield place
    subprocess.run(["umount", place], check=True)


def test_a_place_from_which_no_code_can_be_run_is_found(noexec: Path) -> None:
    """The engine could not load one kernel it has compiled; the rest works."""
    (fault,) = try_folder(noexec)

    assert fault.startswith("execute: ")
