"""Boxes with kboot installed by install.sh, made once; each test gets a fresh one on top of it."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from fakes.box import Box, NewBox

REPOSITORY = Path(__file__).parents[2]


def why_not() -> str:
    """Return why no box can run here; empty when it can."""
    if os.geteuid() != 0:
        return "needs root"
    if shutil.which("systemd-nspawn") is None:
        return "needs systemd-nspawn (package systemd-container)"
    return ""


@pytest.fixture(scope="session")
def layer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The changes that install.sh makes to a clean machine."""
    if reason := why_not():
        pytest.skip(reason)
    folder = tmp_path_factory.mktemp("installed")
    checkout = tmp_path_factory.mktemp("checkout")
    for name in ("agent", "profiles", "systemd"):
        shutil.copytree(REPOSITORY / name, checkout / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("install.sh", "pyproject.toml", "README.md"):
        shutil.copy(REPOSITORY / name, checkout)
    box = Box(folder, f"kboot{os.getpid()}-install", binds=(checkout,))
    try:
        # A file system of its own: one layer may not lie inside another that it is laid over.
        subprocess.run(["mount", "-t", "tmpfs", "kboot-layer", folder], check=True, capture_output=True)
        with ExitStack() as stack:
            stack.callback(subprocess.run, ["umount", "--lazy", folder], check=False)
            stack.enter_context(box)
            result = box.inside(str(checkout / "install.sh"))
            assert 0 == result.returncode, result.stdout + result.stderr
            box.__exit__()
            yield box.upper
    except subprocess.CalledProcessError as exc:
        pytest.skip(f"cannot mount here: {exc.stderr.decode().strip()}")


@pytest.fixture
def new_box(layer: Path, tmp_path: Path) -> Iterator[NewBox]:
    """Return a function that gives a box with kboot installed, not booted yet."""
    with ExitStack() as stack:
        count = 0

        def new() -> Box:
            nonlocal count
            count += 1
            return stack.enter_context(Box(tmp_path / f"box{count}", f"kboot{os.getpid()}-{count}", below=(layer,)))

        yield new
