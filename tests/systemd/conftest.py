"""Boxes with kboot installed by install.sh, once for all workers; each test gets a fresh one on top of it."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, suppress
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


def install(folder: Path, checkout: Path) -> None:
    """Mount a layer at `folder`: the changes that install.sh makes to a clean machine are in its `upper`."""
    for name in ("agent", "profiles", "systemd"):
        shutil.copytree(REPOSITORY / name, checkout / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("install.sh", "pyproject.toml", "README.md"):
        shutil.copy(REPOSITORY / name, checkout)
    folder.mkdir(exist_ok=True)
    # A file system of its own: one layer may not lie inside another that it is laid over.
    subprocess.run(["mount", "-t", "tmpfs", "kboot-layer", folder], check=True, capture_output=True)
    with ExitStack() as stack:
        stack.callback(unmount, folder)
        with Box(folder, f"kboot{os.getpid()}-install", binds=(checkout,)) as box:
            result = box.inside(str(checkout / "install.sh"))
            assert 0 == result.returncode, result.stdout + result.stderr
        stack.pop_all()


def unmount(folder: Path) -> None:
    subprocess.run(["umount", "--lazy", folder], check=False)


@pytest.fixture(scope="session")
def layer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The changes that install.sh makes to a clean machine: made by one worker for all, gone with the last of them."""
    if reason := why_not():
        pytest.skip(reason)
    own = tmp_path_factory.getbasetemp()
    folder = (own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / "installed"
    with open(f"{folder}.lock", "wb") as lock:
        # Whoever uses the layer shares the lock for as long as its session lasts, so nobody who finds it there may ask
        # for the lock alone. Between two locks another may come: look again.
        while True:
            fcntl.flock(lock, fcntl.LOCK_SH)
            if os.path.ismount(folder):
                break
            fcntl.flock(lock, fcntl.LOCK_UN)
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not os.path.ismount(folder):
                try:
                    install(folder, tmp_path_factory.mktemp("checkout"))
                except subprocess.CalledProcessError as exc:
                    pytest.skip(f"cannot mount here: {exc.stderr.decode().strip()}")
        yield folder / "upper"
        with suppress(BlockingIOError):  # others use it
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            unmount(folder)


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
