"""Compiling an engine's Python beforehand, with an interpreter that has a package folder of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kboot.apply.bytecode import compile_bytecode
from kboot.events import Event, Notice
from kboot.plan.types import CompileBytecode


def package(site: Path, name: str, requires: str = "") -> None:
    """Install a package of one module, a test, and a file that is no Python."""
    (site / f"{name}/tests").mkdir(parents=True)
    (site / f"{name}/__init__.py").write_text("found = 42\n")
    (site / f"{name}/tests/t.py").write_text("")
    (site / f"{name}/template.py").write_text("{% not Python %}\n")
    info = site / f"{name}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n{requires}")
    (info / "RECORD").write_text(f"{name}/__init__.py,,\n{name}/template.py,,\n{name}-1.0.dist-info/METADATA,,\n")


def interpreter(folder: Path, site: Path, first: str = "pass") -> Path:
    """Return a Python that imports from `site` and the standard library, of which it says that it is empty.

    first: code that it runs before what it is asked to run.
    """
    python = folder / "python3"
    empty = folder / "stdlib"
    empty.mkdir(parents=True)
    python.write_text(
        f"#!{sys.executable} -S\n"
        "import os, sys, sysconfig\n"
        f"sysconfig.get_path = lambda _: {str(empty)!r}\n"
        "sys.argv = sys.argv[1:]\n"
        "__file__ = sys.argv[0]\n"
        f"sys.path[:1] = [os.path.dirname(__file__), {str(site)!r}]\n"
        f"{first}\n"
        "exec(compile(open(__file__).read(), __file__, 'exec'))\n"
    )
    python.chmod(0o755)
    return python


def compiled(folder: str) -> set[str]:
    """Return the modules that are compiled below a folder, by package."""
    return {f"{p.parent.name}/{p.name.split('.')[0]}" for p in Path(folder).rglob("*.pyc") if "site" in p.parts}


def test_the_engine_and_what_it_requires_are_compiled_into_a_folder_that_stays(tmp_path: Path) -> None:
    """Nothing is written beside the sources; Python finds what was compiled; extra, stranger and scripts are left."""
    site = tmp_path / "site"
    package(site, "engine", "Requires-Dist: needed>=1\nRequires-Dist: absent\nRequires-Dist: extra; extra == 'x'\n")
    for name in ("needed", "extra", "stranger"):
        package(site, name)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/script.py").write_text("")
    with (site / "needed-1.0.dist-info/RECORD").open("a") as record:
        record.write("../bin/script.py,,\n")
    (tmp_path / "bytecode/old/x").mkdir(parents=True)
    python = interpreter(tmp_path / "bin", site)
    action = CompileBytecode(str(python), "engine", str(tmp_path / "bytecode/new"), "test")
    outcome = compile_bytecode(action, 2, {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}, lambda _: None)
    say = "import engine, sys; print(engine.found, engine.__cached__.startswith(sys.pycache_prefix))"
    env = {"PYTHONPYCACHEPREFIX": action.folder, "PYTHONPATH": str(site)}
    said = subprocess.run([sys.executable, "-c", say], env=env, capture_output=True, text=True, check=True)

    assert ("done", "compiled 2 files") == (outcome.status, outcome.after.partition(",")[0])
    assert {"engine/__init__", "needed/__init__"} == compiled(action.folder)
    assert "42 True" == said.stdout.strip()
    assert [] == list(site.rglob("__pycache__"))
    assert ["new"] == [p.name for p in (tmp_path / "bytecode").iterdir()]
    assert (tmp_path / "bytecode/new/complete").exists()


NO_HARD_LINKS = "import errno, os; os.link = lambda *_: (_ for _ in ()).throw(OSError(errno.EXDEV, 'another disk'))"


@pytest.mark.parametrize("first", ["pass", NO_HARD_LINKS])
def test_what_an_image_has_compiled_is_linked_where_python_looks(
    tmp_path: Path, first: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the engine what is fresh, of strangers everything; what is older than its source is compiled anew.

    By hard links, which cost nothing; by symbolic ones where the image is on another file system. The working directory
    is that of a service, "/".
    """
    monkeypatch.chdir("/")
    site = tmp_path / "site"
    for name in ("engine", "stranger"):
        package(site, name)
    (site / "engine/other.py").write_text("old = 1\n")
    subprocess.run([sys.executable, "-m", "compileall", "-q", site / "engine/__init__.py", site / "engine/other.py"])
    subprocess.run([sys.executable, "-m", "compileall", "-q", site / "stranger/__init__.py"], check=True)
    (site / "engine/other.py").write_text("changed = 2\n")
    stale = tmp_path / "bytecode/new" / str(site / f"engine/other.{sys.implementation.cache_tag}.pyc").lstrip("/")
    stale.parent.mkdir(parents=True)
    stale.symlink_to(site / f"engine/__pycache__/other.{sys.implementation.cache_tag}.pyc")
    python = interpreter(tmp_path / "bin", site, first)
    action = CompileBytecode(str(python), "engine", str(tmp_path / "bytecode/new"), "test")
    outcome = compile_bytecode(action, 2, os.environ, lambda _: None)
    image = {p.name.split(".")[0]: p for p in (site / "engine/__pycache__").iterdir()}
    links = {p.name.split(".")[0]: p for p in Path(action.folder).rglob("*.pyc") if "engine" in p.parts}
    say = "import engine.other as e, stranger as s, sys; print(e.changed, s.__cached__.startswith(sys.pycache_prefix))"
    env = {"PYTHONPYCACHEPREFIX": action.folder, "PYTHONPATH": str(site), "PYTHONDONTWRITEBYTECODE": "1"}
    said = subprocess.run([sys.executable, "-c", say], env=env, capture_output=True, text=True, check=True)

    assert "compiled 1 files" == outcome.after.partition(",")[0]
    assert {"__init__": True, "other": False} == {
        n: p.samefile(image[n]) for n, p in links.items() if n in ("__init__", "other")
    }
    assert (first == NO_HARD_LINKS) is links["__init__"].is_symlink()
    assert "2 True" == said.stdout.strip()


def test_a_python_that_does_not_run_stops_no_boot(tmp_path: Path) -> None:
    """The engine is left to compile by itself; the outcome and a notice say why, and the next boot tries again."""
    said: list[Event] = []
    for path, words in ((Path("/bin/false"), "status 1"), (tmp_path / "absent", "No such file")):
        outcome = compile_bytecode(CompileBytecode(str(path), "e", str(tmp_path / "b/n"), "test"), 1, {}, said.append)

        assert "unchanged" == outcome.status
        assert words in outcome.after
    assert ["bytecode.not_compiled"] * 2 == [e.event for e in said if isinstance(e, Notice)]
    assert not (tmp_path / "b/n/complete").exists()


def test_the_engines_user_reads_what_was_compiled_whatever_the_umask(tmp_path: Path) -> None:
    """Root boots with umask 077; the engine would compile everything again at every start, and keep none of it."""
    site = tmp_path / "site"
    package(site, "engine")
    action = CompileBytecode(str(interpreter(tmp_path / "bin", site)), "engine", str(tmp_path / "bytecode/new"), "test")
    before = os.umask(0o077)
    try:
        compile_bytecode(action, 1, os.environ, lambda _: None)
    finally:
        os.umask(before)
    made = list((tmp_path / "bytecode").rglob("*"))

    assert {"engine/__init__"} == compiled(action.folder)
    assert [] == [p for p in made if not p.stat().st_mode & 0o004]
