"""Shell scripts are clean."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]


def is_shell(path: Path) -> bool:
    with path.open("rb") as file:
        first_line = file.readline()
    return first_line.startswith(b"#!") and (b"sh" in first_line.split(b"/")[-1])


SCRIPTS = tuple(
    path
    for path in sorted((REPOSITORY / "install.sh", *REPOSITORY.glob(".ci/*"), *REPOSITORY.glob("benchmarks/*")))
    if path.is_file() and is_shell(path)
)


@pytest.mark.skipif(shutil.which("shellcheck") is None, reason="shellcheck is not installed")
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_shellcheck_has_nothing_to_say(script: Path) -> None:
    """Each shell script passes shellcheck without a word."""
    result = subprocess.run(["shellcheck", script], capture_output=True, text=True, check=False)

    assert ("", 0) == (result.stdout, result.returncode)


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_scripts_stop_at_the_first_error(script: Path) -> None:
    """Each script can be run, and `set -e` and `set -u` are on."""
    assert script.stat().st_mode & 0o111
    assert "set -eu" in script.read_text()
