"""install.sh as a real installation, into a folder that stands for a machine."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
INSTALL = REPOSITORY / "install.sh"


def install(*args: str, script: Path = INSTALL, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Run install.sh; standard output and error are kept apart."""
    return subprocess.run(
        [script, *args], env={**os.environ, **(env or {})}, capture_output=True, text=True, timeout=300, check=False
    )


def tree(root: Path) -> dict[str, str]:
    """Return every path below root with what it holds."""
    return {
        str(path.relative_to(root)): str(path.readlink())
        if path.is_symlink()
        else f"{path.stat().st_mode:o} {hashlib.sha256(path.read_bytes()).hexdigest()}"
        if path.is_file()
        else "folder"
        for path in sorted(root.rglob("*"))
    }


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["--frobnicate"], "unknown argument: --frobnicate"),
        (["demo"], "unknown argument: demo"),
        (["--demo", "--test"], "--demo and --test do not go together"),
        (["--demo", "--uninstall"], "--demo and --uninstall do not go together"),
        (["--keep"], "--keep goes with --demo"),
        (["--dir", "/tmp/x"], "--dir goes with --demo"),
        (["--purge"], "--purge goes with --uninstall"),
        (["--test", "--dry-run"], "--dry-run does not go with --test"),
        (["--start", "--demo"], "--start does not go with --demo"),
        (["--start", "--root", str(INSTALL.parent)], "--start and --root do not go together"),
        (["--prefix"], "--prefix needs a folder"),
        (["--prefix", "opt/kboot"], "--prefix must be an absolute path"),
        (["--root", "/nonexistent"], "there is no folder /nonexistent"),
    ],
)
def test_misuse_is_told_with_status_2(args: list[str], said: str) -> None:
    """A command line that makes no sense ends with status 2 and says why, before anything is done."""
    result = install(*args)

    assert 2 == result.returncode
    assert said in result.stderr
    assert "" == result.stdout


def test_help_names_every_option() -> None:
    """--help lists each option that the script takes."""
    options = set(re.findall(r"--[a-z-]+", re.findall(r"while \[.*?^done$", INSTALL.read_text(), re.S | re.M)[0]))
    result = install("--help")

    assert 0 == result.returncode
    assert set() == {option for option in options - {"--help"} if option not in result.stdout}
    assert [] == [line for line in result.stdout.splitlines() if len(line) > 80]


def test_dry_run_prints_and_changes_nothing(tmp_path: Path) -> None:
    """--dry-run names every file and command, and leaves the tree as it was."""
    (tmp_path / "etc").mkdir()
    before = tree(tmp_path)
    result = install("--dry-run", "--root", str(tmp_path))

    assert 0 == result.returncode
    assert before == tree(tmp_path)
    for part in ("-m venv", "pip install", "kboot.service", "kboot.toml", "systemd-sysusers", "ln -sfn"):
        assert part in result.stdout
    assert all(line.startswith("+ ") for line in result.stdout.splitlines())
    made = [line.split()[-1] for line in result.stdout.splitlines() if line.startswith("+ mkdir")]
    assert [] == [(a, b) for n, a in enumerate(made) for b in made[n + 1 :] if f"{a}/".startswith(f"{b}/")]


def test_without_root_nothing_is_installed() -> None:
    """An ordinary user is told to use sudo, or --demo; status 1."""
    if os.geteuid() != 0:
        result = install()
    else:
        copy = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "bash", "-s"]
        result = subprocess.run(copy, input=INSTALL.read_text(), capture_output=True, text=True, check=False, cwd="/")

    assert 1 == result.returncode
    assert "installing needs root" in result.stderr
    assert "--demo" in result.stderr


def fake_python(folder: Path, version: str) -> Path:
    """Return an interpreter of a version that has no ensurepip, as Debian's without its -venv package."""
    path = folder / f"python{version}"
    path.write_text(f'#!/bin/sh\ncase "$2" in *version_info*) echo {version} ;; *) exit 1 ;; esac\n')
    path.chmod(0o755)
    return path


@pytest.mark.parametrize("version", ["3.11", "3.12", "3.13"])
def test_a_python_without_venv_names_the_package_to_install(tmp_path: Path, version: str) -> None:
    """Debian splits ensurepip off: the message says exactly which package is missing."""
    result = install("--dry-run", "--root", str(tmp_path), env={"KBOOT_PYTHON": str(fake_python(tmp_path, version))})

    assert 1 == result.returncode
    assert f"sudo apt-get install python{version}-venv" in result.stderr


def test_a_python_that_is_too_old_is_not_used(tmp_path: Path) -> None:
    """With nothing newer than 3.10 the message says what is wanted and how to get it."""
    result = install("--dry-run", "--root", str(tmp_path), env={"KBOOT_PYTHON": str(fake_python(tmp_path, "3.10"))})

    assert 1 == result.returncode
    assert "3.11" in result.stderr
    assert "apt-get install python3 python3-venv" in result.stderr


@dataclass(frozen=True)
class Machine:
    """A folder that stands for a machine, and the checkout it is installed from."""

    root: Path
    checkout: Path

    def install(self, *args: str) -> subprocess.CompletedProcess[str]:
        """Run the checkout's install.sh for this machine."""
        script = self.checkout / "install.sh"
        return install("--root", str(self.root), "--prefix", "/srv/kboot", *args, script=script)


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    """A machine with kboot installed; its environment is made once for all tests of this file."""
    made = Machine(tmp_path_factory.mktemp("machine"), tmp_path_factory.mktemp("checkout"))
    for name in ("agent", "profiles", "systemd"):
        shutil.copytree(REPOSITORY / name, made.checkout / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("install.sh", "pyproject.toml", "README.md"):
        shutil.copy(REPOSITORY / name, made.checkout)
    result = made.install()
    assert 0 == result.returncode, result.stderr
    yield made
    shutil.rmtree(made.root)


@pytest.mark.slow
def test_everything_is_in_its_place(machine: Machine) -> None:
    """Environment, command, units, user, folders and configuration are there, and the units start this prefix."""
    assert "/srv/kboot/env/bin/kboot" == str((machine.root / "usr/local/bin/kboot").readlink())
    assert (machine.root / "srv/kboot/env/bin/kboot").read_text().startswith("#!/srv/kboot/env/bin/python")
    for name in ("kboot.service", "kboot-engine.service", "kboot-scrub.service", "kboot-scrub.timer"):
        text = (machine.root / "usr/lib/systemd/system" / name).read_text()
        assert "/opt/kboot" not in text
        assert name.endswith(".timer") or "ExecStart=/srv/kboot/env/bin/kboot " in text
    for name in ("kboot.service", "kboot-engine.service"):
        assert (machine.root / "etc/systemd/system/multi-user.target.wants" / name).is_symlink()
    assert (machine.root / "usr/lib/sysusers.d/kboot.conf").exists()
    assert (machine.root / "usr/lib/tmpfiles.d/kboot.conf").exists()
    config = tomllib.loads((machine.root / "etc/kboot/kboot.toml").read_text())
    assert 1 == config.pop("schema")
    assert not any(config.values()), "a new node asks for nothing"


@pytest.mark.slow
def test_an_image_gets_no_state(machine: Machine) -> None:
    """With --root nothing of this host gets into the image: no key, no ledger, no path of the build folder."""
    assert not (machine.root / "var/lib/kboot").exists()
    assert not (machine.root / "run/kboot").exists()
    for path in (machine.root / "srv/kboot/env/bin").iterdir():
        if path.is_file() and not path.is_symlink():
            assert str(machine.root).encode() not in path.read_bytes()
    assert str(machine.root) not in (machine.root / "srv/kboot/env/pyvenv.cfg").read_text()


@pytest.mark.slow
def test_a_second_run_changes_nothing_and_says_so(machine: Machine) -> None:
    """Installing again is quick, leaves every byte as it is, and keeps the operator's configuration."""
    config = machine.root / "etc/kboot/kboot.toml"
    config.write_text(config.read_text().replace('profile = ""', 'profile = "demo"'))
    before = tree(machine.root)
    result = machine.install()

    assert 0 == result.returncode
    assert "nothing to change" in result.stderr
    assert before == tree(machine.root)


@pytest.mark.slow
def test_a_damaged_unit_is_put_back(machine: Machine) -> None:
    """Installing again repairs what differs, and only that."""
    unit = machine.root / "usr/lib/systemd/system/kboot.service"
    before = tree(machine.root)
    unit.write_text("[Service]\n")
    result = machine.install()

    assert 0 == result.returncode
    assert [f"==> writing {unit}"] == [line for line in result.stderr.splitlines() if "writing" in line]
    assert before == tree(machine.root)


@pytest.mark.slow
def test_uninstall_keeps_what_is_the_operators(machine: Machine) -> None:
    """--uninstall removes what was installed and keeps configuration; --purge removes that as well."""
    copy = Machine(machine.root.with_name("copy"), machine.checkout)
    shutil.copytree(machine.root, copy.root, symlinks=True)
    kept = copy.install("--uninstall")
    left = [path for path in tree(copy.root) if "kboot" in path]
    purged = copy.install("--uninstall", "--purge")
    after = [path for path in tree(copy.root) if "kboot" in path]
    again = copy.install("--uninstall")

    assert (0, 0, 0) == (kept.returncode, purged.returncode, again.returncode)
    assert ["etc/kboot", "etc/kboot/kboot.toml", "etc/kboot/profiles"] == left
    assert [] == after
    assert "nothing to remove" in again.stderr
