"""Fixtures that give recorded and generated machines.

Use: put `tests/` on sys.path in a conftest and either `pytest_plugins = ["nodes.plugin"]` (top conftest) or
`from nodes.plugin import machine, machine_facts  # noqa: F401` (any other).
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from kboot.facts.collect import collect
from kboot.facts.types import NodeFacts
from kboot.host.paths import find_paths
from kboot.host.recorded import RecordedHost
from nodes.generate import write
from nodes.machines import MACHINES

RECORDED = Path(__file__).with_name("recorded")
RECORDED_NAMES = tuple(sorted(path.name for path in RECORDED.iterdir()))

MachineRoot = Callable[[str], Path]
MachineFacts = Callable[[str], NodeFacts]


@pytest.fixture
def machine(tmp_path: Path) -> MachineRoot:
    """Return a function from a machine's name ("b300", "h200x2") to the root of a fresh tree of it."""

    def make(name: str) -> Path:
        root = tmp_path / "machines" / name
        if name in MACHINES:
            return write(MACHINES[name], root)
        return Path(shutil.copytree(RECORDED / name, root))

    return make


@pytest.fixture
def machine_facts(machine: MachineRoot) -> MachineFacts:
    """Return a function from a machine's name to all that is found on it."""
    return lambda name: facts_of(machine(name))


def facts_of(root: Path, **asked: object) -> NodeFacts:
    """Return what the collectors find in a tree; `asked` goes to `collect`."""
    return collect(RecordedHost(root), find_paths(root, {}, 0), **asked)  # type: ignore[arg-type]
