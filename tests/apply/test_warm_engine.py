"""An engine's own files, read by what its interpreter says is its."""

from __future__ import annotations

import os
import sys
import threading
from importlib.util import cache_from_source
from pathlib import Path

import pytest

from kboot.apply.warm_engine import KEPT, warm_engine
from kboot.events import Event, Notice
from kboot.host.pagecache import resident_bytes
from kboot.host.processes import OUTPUT_LIMIT_BYTES
from kboot.plan.types import WarmEngine
from kboot.report.types import Outcome
from kboot.store.cache_files import COMPLETE

MIB = 1 << 20


class Engine:
    """A package "engine" that requires "needed", each with a module and a library; "stranger" belongs to nobody."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.site, self.folder, self.marker = folder / "site", folder / "compiled", folder / "run/warmed/one"
        monkeypatch.setattr(sys, "pycache_prefix", str(self.folder))
        self.files = [*self._install("engine", "Requires-Dist: needed>=1\n"), *self._install("needed")]
        self.stranger = self._install("stranger")
        self.python = folder / "python3"
        self.python.write_text(f'#!/bin/sh\nPYTHONPATH={self.site} exec {sys.executable} -S "$@"\n')
        self.python.chmod(0o755)
        self.said: list[Event] = []
        self.stop = threading.Event()

    def _install(self, name: str, requires: str = "") -> list[Path]:
        package, info = self.site / name, self.site / f"{name}-1.0.dist-info"
        package.mkdir(parents=True)
        info.mkdir()
        (package / "__init__.py").write_text("")
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n{requires}")
        (info / "RECORD").write_text(f"{name}/__init__.py,,\n{name}/lib{name}.so.1,,\n{name}/gone.so,,\n")
        files = [Path(cache_from_source(str(package / "__init__.py"))), package / f"lib{name}.so.1"]
        for path in files:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(os.urandom(2 * MIB))
            with path.open("rb") as file:
                os.fsync(file.fileno())
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        return files

    def warm(self, limit_bytes: int = 1 << 40, python: Path | None = None) -> Outcome:
        asked = str(python or self.python)
        action = WarmEngine(asked, "engine", str(self.folder), str(self.marker), limit_bytes, "test")
        return warm_engine("cache", action, dict(os.environ), self.said.append, self.stop)


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Engine:
    engine = Engine(tmp_path, monkeypatch)
    if any(map(resident_bytes, engine.files)):
        pytest.skip("this file system keeps its files in memory")
    return engine


def test_libraries_and_compiled_python_of_the_engine_and_its_requirements_are_read(engine: Engine) -> None:
    """Nobody else's are; that it was done is noted until the machine starts again."""
    outcome = engine.warm()

    assert ("done", 4 * 2 * MIB) == (outcome.status, outcome.size_bytes)
    assert all((resident_bytes(path) or 0) > 0 for path in engine.files)
    assert [0, 0] == [resident_bytes(path) for path in engine.stranger]
    assert engine.marker.exists()


def test_an_engine_of_many_files_is_read_to_the_last(engine: Engine) -> None:
    """The libraries come last in the list, and the names of vLLM's files alone are more than 1 MiB."""
    many = "engine/" + "/".join(["a" * 200] * 3)
    (engine.site / many).mkdir(parents=True)
    names = [f"{many}/{number}.so" for number in range(2000)]
    for name in names:
        (engine.site / name).touch()
    record = engine.site / "engine-1.0.dist-info/RECORD"
    record.write_text("".join(f"{name},,\n" for name in names) + record.read_text())
    outcome = engine.warm()

    assert len("".join(names)) > OUTPUT_LIMIT_BYTES
    assert ("done", 4 * 2 * MIB) == (outcome.status, outcome.size_bytes)


def test_a_list_that_is_not_whole_is_told(engine: Engine) -> None:
    """Nothing is taken for the whole of an engine that is a part of it, and the next boot tries again."""
    engine.python.write_text(f'#!/bin/sh\nPYTHONPATH={engine.site} {sys.executable} -S "$@" | head -c 20\n')
    outcome = engine.warm()

    assert ("unchanged", "not read: its list of files is not whole") == (outcome.status, outcome.after)
    assert ["warm.engine_left"] == [e.event for e in engine.said if isinstance(e, Notice)]
    assert not engine.marker.exists()


def test_the_interpreter_is_asked_once_for_each_set_of_packages(engine: Engine) -> None:
    """What a whole folder of compiled Python was asked for is kept there; of one that is not whole nothing is."""
    engine.warm()
    assert not (engine.folder / KEPT).exists()

    (engine.folder / COMPLETE).touch()
    engine.warm()
    for path in engine.files:
        with path.open("rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    outcome = engine.warm(python=Path("/bin/false"))

    assert ("done", 4 * 2 * MIB) == (outcome.status, outcome.size_bytes)


def test_a_damaged_list_is_asked_for_again(engine: Engine) -> None:
    """As one that a lost page tore."""
    (engine.folder / COMPLETE).touch()
    (engine.folder / KEPT).write_bytes(b"torn")
    outcome = engine.warm()

    assert ("done", 4 * 2 * MIB) == (outcome.status, outcome.size_bytes)
    assert b"torn" != (engine.folder / KEPT).read_bytes()


def test_a_list_that_cannot_be_kept_stops_no_boot(engine: Engine) -> None:
    """Its place is taken, or the disk is full: the files are read all the same, and the next boot asks again."""
    (engine.folder / COMPLETE).touch()
    (engine.folder / KEPT).mkdir()
    outcome = engine.warm()

    assert ("done", 4 * 2 * MIB) == (outcome.status, outcome.size_bytes)


def test_no_more_is_read_than_there_is_memory_for(engine: Engine) -> None:
    """The limit holds for all of them together; small files that still fit are read."""
    outcome = engine.warm(5 * MIB)

    assert 2 * 2 * MIB == outcome.size_bytes


def test_an_interpreter_that_does_not_answer_stops_no_boot(engine: Engine) -> None:
    """It is told, nothing is read, and the next boot tries again."""
    outcome = engine.warm(python=Path("/bin/false"))

    assert ("unchanged", 0) == (outcome.status, outcome.size_bytes)
    assert ["warm.engine_left"] == [e.event for e in engine.said if isinstance(e, Notice)]
    assert not engine.marker.exists()


def test_once_stopped_nothing_is_read(engine: Engine) -> None:
    """Not even the interpreter is asked."""
    engine.stop.set()

    assert "skipped" == engine.warm().status
