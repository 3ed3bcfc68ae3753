"""The code keeps its shape: sizes, a test file for each module, every adapter in its tuple."""

from __future__ import annotations

import ast
import statistics
from pathlib import Path

import pytest

from kboot import engines, sources
from kboot.checks.every import CHECKS

REPOSITORY = Path(__file__).parents[2]
PACKAGE = REPOSITORY / "agent" / "kboot"
MODULES = tuple(sorted(PACKAGE.rglob("*.py")))
LONGEST_MODULE = 400
GENERATED = {"engines/flags_data.py"}  # tables that tools/ writes; nobody reads them line by line

# Top modules that need no test file of their own, each with the reason.
NO_OWN_TESTS = {
    "__init__": "the version",
    "__main__": "two lines; tested by running kboot",
    "answers": "types of what asking sources and judging the answers is tested for",
    "errors": "types; their statuses are tested with the command line and the documents",
    "events": "types; who follows them is tested",
}
# Folders of tests that belong to no package.
BESIDE = {"benchmarks", "cases", "docs", "e2e", "fakes", "guards", "install", "nodes", "systemd", "tools"}


def name_of(path: Path) -> str:
    return str(path.relative_to(PACKAGE))


@pytest.mark.parametrize("path", [m for m in MODULES if name_of(m) not in GENERATED], ids=name_of)
def test_a_module_fits_in_a_sitting(path: Path) -> None:
    """No module is longer than LONGEST_MODULE lines."""
    assert LONGEST_MODULE >= len(path.read_text().splitlines())


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_a_module_opens_with_what_it_answers(path: Path) -> None:
    """Each module has a docstring whose first line is a whole sentence."""
    first_line = (ast.get_docstring(ast.parse(path.read_text())) or "").split("\n")[0]

    assert first_line.endswith((".", "?", ":"))


def function_lengths() -> list[int]:
    """Return the lines of every function, docstring included."""
    return [
        (node.end_lineno or node.lineno) - node.lineno + 1
        for path in MODULES
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef)
    ]


def test_functions_are_short() -> None:
    """The median function has fewer than 12 lines, and not one in twenty more than 50."""
    lengths = function_lengths()

    assert 12 > statistics.median(lengths)
    assert 0.05 > sum(length > 50 for length in lengths) / len(lengths)


def test_tests_mirror_the_source_tree() -> None:
    """Each package has a folder of tests, each top module a test file, and no folder of tests lacks its package."""
    packages = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    folders = {path.parent.name for path in (REPOSITORY / "tests").glob("*/test_*.py")}
    modules = {path.stem for path in PACKAGE.glob("*.py")} - set(NO_OWN_TESTS)
    files = {path.stem.removeprefix("test_") for path in (REPOSITORY / "tests").glob("test_*.py")}

    assert set() == packages - folders
    assert set() == folders - packages - BESIDE
    assert modules == files


def modules_with(package: Path, marker: str) -> set[str]:
    """Return the modules of a package whose text has the marker at the start of a line."""
    return {path.stem for path in package.glob("*.py") if f"\n{marker}" in path.read_text() and path.stem != "types"}


def test_every_check_is_in_the_tuple() -> None:
    """A check that CHECKS does not list would never be asked."""
    listed = {check.run.__module__.rpartition(".")[2] for check in CHECKS}

    assert modules_with(PACKAGE / "checks", "CHECK = ") == listed


def test_every_engine_is_in_the_tuple() -> None:
    """An adapter that ENGINES does not list could never be chosen."""
    listed = {type(engine).__module__.rpartition(".")[2] for engine in engines.ENGINES}
    adapters = {path.stem for path in (PACKAGE / "engines").glob("*.py") if "def cache_key(self" in path.read_text()}

    assert adapters - {"types", "common"} == listed


def test_every_source_is_in_the_tuple() -> None:
    """A source that KINDS does not open could never be used."""
    adapters = {path.stem for path in (PACKAGE / "sources").glob("*.py") if "    def list(self, " in path.read_text()}
    used = {value.__module__.rpartition(".")[2] for value in vars(sources).values() if isinstance(value, type)}

    assert adapters - {"types"} <= used
    assert len(sources.KINDS) == len({kind.form for kind in sources.KINDS})
