"""Compiling an engine's Python beforehand, with an interpreter that imports from one small folder."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from kboot.apply.bytecode import compile_bytecode
from kboot.events import Event, Notice
from kboot.plan.types import CompileBytecode

_INTERPRETER = """#!{python} -S
import compileall, re, sys
code, sys.argv = sys.argv[2], sys.argv[2:]
sys.path = ["", {site!r}]
exec(code)
"""


def interpreter(folder: Path) -> Path:
    """Return a Python whose only package folder holds a module, a test, and a file that is no Python."""
    site = folder / "site"
    (site / "p/tests").mkdir(parents=True)
    (site / "p/__init__.py").write_text("found = 42\n")
    (site / "p/tests/t.py").write_text("")
    (site / "p/template.py").write_text("{% not Python %}\n")
    python = folder / "python3"
    python.write_text(_INTERPRETER.format(python=sys.executable, site=str(site)))
    python.chmod(0o755)
    return python


def test_modules_are_compiled_into_a_folder_that_stays(tmp_path: Path) -> None:
    """Beside the sources nothing is written; Python finds what was compiled; older folders go."""
    python, old = interpreter(tmp_path), tmp_path / "bytecode/old/x"
    old.mkdir(parents=True)
    action = CompileBytecode(str(python), str(tmp_path / "bytecode/new"), "test")
    outcome = compile_bytecode(action, 1, {"PYTHONDONTWRITEBYTECODE": "1"}, lambda _: None)
    compiled = sorted(p.name.split(".")[0] for p in (tmp_path / "bytecode/new").rglob("*.pyc"))
    say = "import p, sys; print(p.found, p.__cached__.startswith(sys.pycache_prefix))"
    env = {"PYTHONPYCACHEPREFIX": action.folder, "PYTHONPATH": str(tmp_path / "site")}
    said = subprocess.run([sys.executable, "-c", say], env=env, capture_output=True, text=True, check=True)

    assert ("done", action.folder) == (outcome.status, outcome.after)
    assert ["__init__"] == compiled
    assert "42 True" == said.stdout.strip()
    assert [] == list((tmp_path / "site").rglob("__pycache__"))
    assert {"complete", "new"} >= {p.name for p in (tmp_path / "bytecode").iterdir()}


def test_a_python_that_does_not_run_stops_no_boot(tmp_path: Path) -> None:
    """The engine is left to compile by itself; the outcome and a notice say why, and the next boot tries again."""
    said: list[Event] = []
    for path, words in ((Path("/bin/false"), "status 1"), (tmp_path / "absent", "No such file")):
        outcome = compile_bytecode(CompileBytecode(str(path), str(tmp_path / "b/n"), "test"), 1, {}, said.append)

        assert "unchanged" == outcome.status
        assert words in outcome.after
    assert ["bytecode.not_compiled"] * 2 == [e.event for e in said if isinstance(e, Notice)]
    assert not (tmp_path / "b/n/complete").exists()
