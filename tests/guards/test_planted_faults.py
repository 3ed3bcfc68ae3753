"""The guards catch the faults they exist for: each is planted, and must be named."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from guards.no_io import Watch

REPOSITORY = Path(__file__).parents[2]
TOOLS = Path(sys.executable).parent


def lint(source: str, path: str) -> str:
    """Return what ruff says about a file of this content at this place."""
    result = subprocess.run(
        [TOOLS / "ruff", "check", "--no-cache", "--output-format=concise", "--stdin-filename", path, "-"],
        input=f'"""A module."""\n\n{source}\n',
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )
    return result.stdout


@pytest.mark.parametrize(
    ("source", "rule", "advice"),
    [
        ("import subprocess", "TID251", "kboot.host.processes"),
        ("import os", "TID251", "take a Host"),
        ("from os import environ", "TID251", "take a Host"),
        ("import time", "TID251", "kboot.host.clock"),
        ("import socket", "TID251", "kboot.host and kboot.sources"),
        ("import urllib.request", "TID251", "kboot.sources"),
        ('import importlib\n\nimportlib.import_module("os")', "TID251", "import statically"),
        ('TEXT = open("/etc/hostname").read()', "PTH123", "open()"),
        ("try:\n    pass\nexcept Exception:\n    pass", "BLE001", "blind"),
        ('print("done")', "T201", "print"),
    ],
)
@pytest.mark.parametrize("folder", ["plan", "store", "cli"])
def test_lint_refuses_effects_outside_host(source: str, rule: str, advice: str, folder: str) -> None:
    """Outside kboot.host, ruff refuses the import or call and says what to use instead."""
    said = lint(source, f"agent/kboot/{folder}/planted.py")

    assert rule in said
    assert advice in said


@pytest.mark.parametrize("source", ["import os\n\nos.getpid()", 'TEXT = open("/etc/hostname").read()'])
def test_host_may(source: str) -> None:
    """The same lines are fine where they belong."""
    said = lint(source, "agent/kboot/host/planted.py")

    assert "TID251" not in said
    assert "PTH123" not in said


PLANTED = {
    "plan/planted_low.py": "import kboot.host.files",
    "plan/planted_path.py": "import pathlib",
    "engines/planted_up.py": "import kboot.plan.types",
    "checks/planted_network.py": "import kboot.sources",
    "host/planted_up.py": "import kboot.cli",
    "store/planted_demo.py": "import kboot.demo",
    "facts/planted_click.py": "import kboot.boot",
}


def test_layers_refuse_imports_upwards_and_out_of_pure_code(tmp_path: Path) -> None:
    """import-linter names each planted import: upwards, out of pure packages, into the demo programs."""
    package = tmp_path / "kboot"
    shutil.copytree(REPOSITORY / "agent" / "kboot", package, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(REPOSITORY / "pyproject.toml", tmp_path)
    for name in ("boot.py", "bake.py", "doctor.py", "handoff.py"):
        (package / name).touch()
    for name, line in PLANTED.items():
        (package / name).write_text(f"{line}\n")

    result = subprocess.run(
        [TOOLS / "lint-imports", "--no-cache"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert 0 != result.returncode
    for name in PLANTED:
        assert f"kboot.{name.removesuffix('.py').replace('/', '.')} -> " in result.stdout


def planner(body: str) -> object:
    """Return a function `plan` that looks as if it stood in a planner."""
    names = {"__name__": "kboot.plan.planted"}
    exec(f"def plan():\n    {body}\n", names)
    return names["plan"]


@pytest.fixture(scope="module")
def watch() -> Watch:
    return Watch()


@pytest.mark.parametrize(
    ("body", "event"),
    [
        ("open('/etc/hostname')", "open"),
        ("__import__('pathlib').Path('/etc/hostname').read_text()", "open"),
        ("__import__('os').listdir('/')", "os.listdir"),
        ("__import__('subprocess').run(['true'])", "subprocess.Popen"),
        ("__import__('socket').create_connection(('127.0.0.1', 1), 1)", "socket.getaddrinfo"),
        ("__import__('sqlite3').connect(':memory:')", "sqlite3.connect"),
    ],
)
def test_running_a_planner_that_touches_the_machine_is_seen(watch: Watch, body: str, event: str) -> None:
    """What lint cannot see is seen while the test runs: the call fails and module and event are named."""
    import sqlite3  # noqa: F401  (imports are allowed and must not be what is seen)

    plan = planner(body)
    with watch.armed_during(), pytest.raises(AssertionError):
        plan()

    assert f"kboot.plan.planted did {event}" in watch.seen


def test_a_planner_that_swallows_the_failure_is_still_seen(watch: Watch) -> None:
    """`except Exception` in a planner does not hide what it did."""
    plan = planner("\n    ".join(["try: open('/etc/hostname')", "except Exception: pass"]))
    with watch.armed_during():
        plan()

    assert "kboot.plan.planted did open" in watch.seen


def test_tests_themselves_may_read_files(watch: Watch) -> None:
    """Only deciding code is watched: a golden file may be opened by the test, and a module imported by a planner."""
    with watch.armed_during():
        Path("/etc/hostname").exists()
        Path(__file__).read_text()
        planner("import wave")()

    assert "" == watch.seen


def test_a_test_of_a_planner_that_opens_a_file_fails(tmp_path: Path) -> None:
    """The watch is on by itself for tests/plan, tests/checks and tests/engines, and pytest still reports well."""
    for name in ("conftest.py", "guards/no_io.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(REPOSITORY / "tests" / name, tmp_path / name)
    (tmp_path / "plan").mkdir()
    (tmp_path / "plan" / "test_planted.py").write_text(
        'names = {"__name__": "kboot.plan.planted"}\n'
        "exec(\"def plan():\\n    open('/etc/hostname')\", names)\n\n"
        "def test_plan():\n    names['plan']()\n\n"
        "def test_other():\n    open('/etc/hostname').close()\n"
    )

    result = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", ".", "-c", "/dev/null"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert "1 failed, 1 passed" in result.stdout
    assert "kboot.plan.planted did open" in result.stdout
