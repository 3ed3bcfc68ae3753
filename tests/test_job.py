"""What is there to do: facts, listing and plan of one run, from a Hub on loopback."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from booting import AskedHost, Node, profile
from cli.cli_run import hub
from kboot.errors import DoesNotFit, FactMissing
from kboot.host.types import DiskSpace
from kboot.job import job_of
from kboot.options import BootOptions
from kboot.profile.types import FleetAsk, LayoutAsk, Profile


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


def test_the_page_cache_is_measured_only_where_files_may_be_warmed(node: Node) -> None:
    """A fetch, and a boot without warming, ask the kernel nothing about files that are here."""
    node.boot()
    host = AskedHost({"HF_ENDPOINT": node.endpoint, "PATH": "/usr/bin:/bin"})

    def measured(options: BootOptions) -> set[bool]:
        job = job_of(profile(), host, node.paths, options, node.seen.append, threading.Event())
        return {local.resident_bytes is not None for local in job.checkpoint.files}

    assert {True} == measured(BootOptions()) == measured(BootOptions(only=frozenset({"warm"})))
    assert {False} == measured(BootOptions(only=frozenset({"fetch", "verify", "publish"})))
    assert {False} == measured(BootOptions(skip=frozenset({"warm"})))


@pytest.mark.parametrize("only", [frozenset(), frozenset({"fetch"})], ids=["boot", "fetch alone"])
def test_a_disk_that_is_too_small_is_refused_before_the_first_byte(node: Node, only: frozenset[str]) -> None:
    """B017: what is missing is compared with what is free, for a boot and for the bytes alone: exit status 15."""
    host = FullDisk({"HF_ENDPOINT": node.endpoint, "PATH": "/usr/bin:/bin"})
    options = BootOptions(only=only)  # type: ignore[arg-type]
    with pytest.raises(DoesNotFit) as caught:
        job_of(profile(), host, node.paths, options, node.seen.append, threading.Event())

    assert "disk-too-small" == caught.value.code
    assert not list(node.paths.hub.rglob("*.safetensors"))


PEERS = ("127.0.0.1:7001", "127.0.0.1:7002", "127.0.0.1:7003", "127.0.0.1:7004")


def of_two_nodes(*peers: str, port: int = 7002) -> Profile:
    """A layout of two nodes whose command line shows its rank and head."""
    layout = LayoutAsk(
        name="pair",
        gpu="none",
        gpus_per_node=0,
        nodes=2,
        engine="command",
        command=("/bin/echo", "{node_rank}", "{head}"),
    )
    fleet = FleetAsk(discovery="static", peers=peers, port=port, key_file="/nonexistent") if peers else FleetAsk()
    return profile(layout=(layout,), fleet=fleet)


@pytest.mark.parametrize(
    ("peers", "port", "options", "place"),
    [
        (PEERS[:2], 7002, {}, ("1", "127.0.0.1")),
        (PEERS, 7003, {}, ("0", "127.0.0.1")),
        (PEERS[:2], 7002, {"node_rank": 0, "head_address": "head"}, ("0", "head")),
        ((), 7002, {}, ("0", "127.0.0.1")),
    ],
)
def test_rank_and_head_come_from_the_fleet(
    node: Node, peers: tuple[str, ...], port: int, options: dict[str, object], place: tuple[str, str]
) -> None:
    """Without options; those that an operator gives win, and a node without a fleet is the first of one."""
    assert place == node.plan(of_two_nodes(*peers, port=port), **options).launch.argv[1:]


def test_a_plan_for_a_fleet_that_lacks_nodes_is_refused(node: Node) -> None:
    """Two nodes are wanted, one is listed."""
    with pytest.raises(FactMissing) as caught:
        node.plan(of_two_nodes(PEERS[1]))

    assert "fleet-incomplete" == caught.value.code
