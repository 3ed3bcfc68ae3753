"""What is there to do: facts, listing and plan of one run, from a Hub on loopback."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from booting import AskedHost, Node, profile
from cli.cli_run import hub
from kboot.errors import DoesNotFit
from kboot.host.types import DiskSpace
from kboot.job import BootOptions, job_of


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The demo Hub with six shards."""
    with hub(tmp_path_factory.mktemp("hub")) as url:
        yield url


@pytest.fixture
def node(tmp_path: Path, endpoint: str) -> Node:
    """A node nobody has booted yet."""
    return Node(tmp_path, endpoint)


class FullDisk(AskedHost):
    """This machine with one MiB left on every disk."""

    def disk_space(self, path: str) -> DiskSpace:
        """Return what a nearly full disk says."""
        return DiskSpace(total_bytes=1 << 30, free_bytes=1 << 20, free_inodes=1000)


def tree(folder: Path) -> dict[str, tuple[int, int]]:
    """Every file below a folder with size and mtime."""
    return {str(p): (p.lstat().st_size, p.lstat().st_mtime_ns) for p in folder.rglob("*") if not p.is_dir()}


def test_a_plan_changes_nothing(node: Node) -> None:
    """`kboot plan` and --dry-run leave a machine as it was, but for the ledger's own file."""
    node.plan()

    assert set() == {name for name in tree(node.folder) if "ledger.db" not in name}


def test_phases_can_be_left_out(node: Node) -> None:
    """--skip warm: the phase has no action and says who left it out."""
    plan = node.plan(skip=frozenset({"warm"}))

    assert {"warm": "left out by --skip"} == {p.name: p.note for p in plan.phases if p.name == "warm"}


@pytest.mark.parametrize("only", [frozenset(), frozenset({"fetch"})], ids=["boot", "fetch alone"])
def test_a_disk_that_is_too_small_is_refused_before_the_first_byte(node: Node, only: frozenset[str]) -> None:
    """B017: what is missing is compared with what is free, for a boot and for the bytes alone: exit status 15."""
    host = FullDisk({"HF_ENDPOINT": node.endpoint, "PATH": "/usr/bin:/bin"})
    options = BootOptions(only=only)  # type: ignore[arg-type]
    with pytest.raises(DoesNotFit) as caught:
        job_of(profile(), host, node.paths, options, node.seen.append, threading.Event())

    assert "disk-too-small" == caught.value.code
    assert not list(node.paths.hub.rglob("*.safetensors"))
