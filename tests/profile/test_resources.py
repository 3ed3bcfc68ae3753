"""Where shipped profiles are found."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from kboot.profile.resources import shipped_profiles

REPOSITORY = Path(__file__).resolve().parents[2]
SHOW = "from kboot.profile.resources import shipped_profiles; print(shipped_profiles())"


def install(folder: Path) -> Path:
    """Copy the package alone, as a wheel unpacks it."""
    package = folder / "kboot"
    shutil.copytree(REPOSITORY / "agent/kboot", package, ignore=shutil.ignore_patterns("__pycache__", "_data"))
    return package


def show(folder: Path) -> subprocess.CompletedProcess[str]:
    """Ask the copy below `folder` for its profiles."""
    command = [sys.executable, "-I", "-c", f"import sys; sys.path.insert(0, {str(folder)!r}); {SHOW}"]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_a_checkout_uses_its_own_profiles() -> None:
    """Profiles are edited where they lie, at the top of the repository."""
    assert REPOSITORY / "profiles" == shipped_profiles()


def test_an_installed_package_carries_them(tmp_path: Path) -> None:
    """A wheel unpacks them to kboot/_data/profiles."""
    package = install(tmp_path)
    shutil.copytree(REPOSITORY / "profiles", package / "_data/profiles")

    assert f"{package}/_data/profiles\n" == show(tmp_path).stdout


def test_an_installation_without_profiles_says_so(tmp_path: Path) -> None:
    """The error has a code and is ours."""
    install(tmp_path)

    assert "this installation of kboot has no profiles folder" in show(tmp_path).stderr
