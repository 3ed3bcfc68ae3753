"""What all tests share: the no-I/O watch over deciding code, the order of files, and the recorded nodes."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, settings

from guards.no_io import Watch

# How long an example takes says how busy the machine is, and nothing of the code. Explaining a failure traces every
# line and may outlast the test's own deadline, so that the failing example would not be told.
settings.register_profile(
    "kboot",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    phases=[phase for phase in Phase if phase is not Phase.explain],
)
settings.load_profile("kboot")

TESTS = Path(__file__).parent
WATCHED = ("plan", "checks", "engines")

pytest_plugins = ["nodes.plugin"] if (TESTS / "nodes" / "plugin.py").exists() else []

_WATCH = Watch()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put files with slow tests first: workers that end with short ones end together."""
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: item.path not in slow)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Watch tests of pure packages, and those marked no_io."""
    parts = item.path.relative_to(TESTS).parts if item.path.is_relative_to(TESTS) else ()
    if not (parts and parts[0] in WATCHED) and item.get_closest_marker("no_io") is None:
        return (yield)
    with _WATCH.armed_during():
        result = yield
    if _WATCH.seen:  # also where the code under test swallowed the exception
        pytest.fail(_WATCH.seen, pytrace=False)
    return result


@pytest.fixture
def memory_path(tmp_path: Path) -> Iterator[Path]:
    """A folder in memory where there is /dev/shm: what a killed process wrote the kernel keeps, without any disk."""
    if not os.access("/dev/shm", os.W_OK):
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(prefix="kboot-test-", dir="/dev/shm") as folder:
        yield Path(folder)
