"""Boxes with kboot installed by install.sh, made once; each test gets a fresh one on top of it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from box import Box  # noqa: E402

REPOSITORY = Path(__file__).parents[2]

NewBox = Callable[[], Box]


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
        box.__enter__()
    except subprocess.CalledProcessError as exc:
        pytest.skip(f"cannot mount an overlay here: {exc.stderr.decode().strip()}")
    try:
        result = box.inside(str(checkout / "install.sh"))
        assert 0 == result.returncode, result.stdout + result.stderr
    finally:
        box.__exit__()
    yield box.upper
    shutil.rmtree(folder, ignore_errors=True)


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
