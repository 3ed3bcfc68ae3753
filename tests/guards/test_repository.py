"""Nothing is in the repository that should not be."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]

# Written so that this file does not match itself.
FORBIDDEN = {
    "a Hub token": r"\bhf_" + r"[A-Za-z]{30,}\b",
    "a cloud key": r"\bAKIA" + r"(?!IOSFODNN7EXAMPLE)[0-9A-Z]{16}\b",  # but for the one in AWS's own manuals
    "a private key": r"-----BEGIN " + r"[A-Z ]*PRIVATE KEY-----",
    "a path of the machine it was written on": r"(?<![\w.])/(?:" + r"work|root)/(?:main|shared|\.pyenv)\b",
    "unfinished work": r"\b(?:TO" + r"DO|FIX" + r"ME|XX" + r"X)\b|NotImplemented" + r"Error",
}

# A server on loopback needs a key of its own; it opens nothing.
ALLOWED = {"a private key": "tests/fakes/tls/"}


def tracked() -> list[Path]:
    """Return the files of the repository, as git has them; without git, all that are not ignored by name."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=REPOSITORY,
        capture_output=True,
        check=False,
    )
    if listed.returncode:
        hidden = {".venv", ".git", "__pycache__"}
        return [p for p in REPOSITORY.rglob("*") if p.is_file() and not hidden & set(p.parts)]
    return [REPOSITORY / name for name in listed.stdout.decode().split("\0") if name]


@pytest.mark.parametrize("what", FORBIDDEN)
def test_no_file_contains(what: str) -> None:
    """No file has a secret, a path of a particular machine, or a note of unfinished work in it."""
    pattern = re.compile(FORBIDDEN[what])
    found = [
        f"{path.relative_to(REPOSITORY)}:{number}"
        for path in tracked()
        if path.is_file() and not str(path.relative_to(REPOSITORY)).startswith(ALLOWED.get(what, "\0"))
        for number, line in enumerate(path.read_bytes().decode(errors="replace").splitlines(), 1)
        if pattern.search(line)
    ]

    assert [] == found


def test_no_file_is_large() -> None:
    """The repository stays small: no file is larger than 1 MiB."""
    large = [str(p.relative_to(REPOSITORY)) for p in tracked() if p.is_file() and p.stat().st_size > 1 << 20]

    assert [] == large


@pytest.mark.parametrize("tool", [["ruff", "check"], ["ruff", "format", "--check"]], ids=" ".join)
def test_makefile_runs(tool: list[str]) -> None:
    """`make check` runs the linter and the formatter."""
    assert " ".join(tool) in (REPOSITORY / "Makefile").read_text()
