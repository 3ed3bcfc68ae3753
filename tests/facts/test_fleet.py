"""The fleet is read from whatever names it, in the same order on every node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kboot.facts.fleet import Network, collect_fleet
from kboot.facts.fleet_names import (
    MOST_NODES,
    expand_hostlist,
    hosts_of_group,
    nodes_of_addresses,
    nodes_of_peers,
    place_of,
)
from kboot.facts.fleet_types import FleetFacts, FleetNode
from kboot.host.real import RealHost
from kboot.host.recorded import RecordedHost
from kboot.profile.types import Discovery, FleetAsk

NAMES = {
    "node1": ("10.0.0.1",),
    "node2": ("10.0.0.2", "fd00::2"),
    "fleet.example": ("10.0.0.10", "10.0.0.9", "10.0.0.1", "10.0.0.9"),
}
WORKERS = ("kimi-0.kimi.ml", "kimi-0-1.kimi.ml", "kimi-0-2.kimi.ml")


class AskedHost(RealHost):
    """This machine under another name, with another environment."""

    def __init__(self, name: str = "elsewhere", env: Mapping[str, str] | None = None) -> None:
        self._name, self._env = name, env or {}

    def environ(self) -> Mapping[str, str]:
        return self._env

    def hostname(self) -> str:
        return self._name


def network(*own: str) -> Network:
    """Return a network in which NAMES have addresses and this machine has its own."""

    def addresses(name: str, timeout_s: float) -> Sequence[str]:
        if name not in NAMES:
            raise OSError("Name or service not known")
        return NAMES[name]

    def interface(name: str) -> frozenset[str]:
        if name not in ("", "ib0"):
            raise OSError(f"there is no interface {name}")
        return frozenset(own)

    def way(host: str, port: int) -> str:
        return "10.0.0.1" if own else ""

    return Network(addresses, interface, way, {"10.0.0.1": "eth0", "10.0.0.2": "ib0"}.__getitem__)


def ask(discovery: Discovery, *peers: str, dns: str = "", bind: str = "", port: int = 7417) -> FleetAsk:
    return FleetAsk(discovery=discovery, peers=peers, dns=dns, bind=bind, port=port, key_file="/etc/kboot/fleet.key")


@pytest.mark.parametrize(
    ("text", "hosts"),
    [
        ("node7", ("node7",)),
        ("gpu[01-03,7],login", ("gpu01", "gpu02", "gpu03", "gpu7", "login")),
        ("r[1-2]n[08-10]", ("r1n08", "r1n09", "r1n10", "r2n08", "r2n09", "r2n10")),
        ("a-[1-2]-ib", ("a-1-ib", "a-2-ib")),
        ("b,a", ("b", "a")),
        ("", ()),
    ],
)
def test_a_slurm_list_is_expanded_in_its_order(text: str, hosts: tuple[str, ...]) -> None:
    """Zeros in front belong to the name; several brackets multiply, the last one runs fastest."""
    assert hosts == expand_hostlist(text)


@pytest.mark.parametrize("text", ["a[1-", "a[1-2", "a]1[", "a[x]", "a[2-1]", "a[1-99999999]", "a[[1]]", "a b", "$(x)"])
def test_what_is_no_slurm_list_is_refused(text: str) -> None:
    """Nothing is guessed, and no list makes the reader count for hours."""
    with pytest.raises(ValueError, match=r"."):
        expand_hostlist(text)


@given(st.lists(st.integers(0, 999), min_size=1, max_size=20, unique=True))
def test_every_number_of_a_list_is_a_node(numbers: list[int]) -> None:
    """A list of numbers names exactly those nodes, in its order."""
    assert tuple(f"n{n:03}" for n in numbers) == expand_hostlist(f"n[{','.join(f'{n:03}' for n in numbers)}]")


def test_the_workers_of_a_group_share_the_leaders_domain() -> None:
    """LeaderWorkerSet names worker n of a group after its leader."""
    assert WORKERS == hosts_of_group("kimi-0.kimi.ml", 3)


def test_addresses_are_ordered_as_numbers() -> None:
    """10.0.0.9 is before 10.0.0.10 on every node, in whatever order a resolver answers."""
    nodes = nodes_of_addresses(["fd00::1", "10.0.0.10", "10.0.0.9", "10.0.0.10"], 7417)

    assert ("10.0.0.9", "10.0.0.10", "fd00::1") == tuple(node.host for node in nodes)


def test_a_name_with_more_addresses_than_a_fleet_has_nodes_is_a_mistake() -> None:
    """As any other list is."""
    addresses = [f"10.{number >> 8}.{number & 255}.1" for number in range(MOST_NODES + 1)]
    assert MOST_NODES == len(nodes_of_addresses(addresses[1:], 7417))
    with pytest.raises(ValueError, match="4097 addresses, more than 4096 nodes"):
        nodes_of_addresses(addresses, 7417)


def test_nodes_of_one_host_are_told_apart_by_their_ports() -> None:
    """Names are unique, and a peer that is listed twice is one node."""
    nodes = nodes_of_peers(["a:1", "a:2", "b", "b"], 7417)

    assert (FleetNode("a:1", "a", 1), FleetNode("a:2", "a", 2), FleetNode("b", "b", 7417)) == nodes


def test_a_node_that_could_be_two_is_none() -> None:
    """Of two nodes on this machine the one with our port is this one; without such a port nobody guesses."""
    nodes = nodes_of_peers(["127.0.0.1:1", "127.0.0.1:2"], 7417)

    assert 1 == place_of(nodes, {"127.0.0.1"}, 2, {})
    assert None is place_of(nodes, {"127.0.0.1"}, 3, {})


@pytest.mark.parametrize(
    ("host", "own", "bind", "me"),
    [
        (AskedHost("node2"), (), "", 1),
        (AskedHost(), ("10.0.0.1",), "", 0),
        (AskedHost(), ("fd00::2",), "", 1),
        (AskedHost(), ("10.0.0.1",), "10.0.0.2", 1),
        (AskedHost("node1"), ("10.0.0.2",), "ib0", 1),
        (AskedHost(env={"POD_IP": "10.0.0.2"}), (), "", 1),
        (AskedHost("node3"), ("10.0.0.3",), "", None),
        (AskedHost("node1"), (), "ib7", None),
    ],
)
def test_a_node_finds_itself_in_a_static_list(host: RealHost, own: tuple[str, ...], bind: str, me: int | None) -> None:
    """By its name, its addresses, or those it is bound to; one that is not listed has a gap that says so."""
    fleet, gaps = collect_fleet(host, ask("static", "node1", "node2", bind=bind), network(*own))

    assert (me, ("node1", "node2")) == (fleet.me, tuple(node.name for node in fleet.nodes))
    assert (me is None) == ("fleet.me" in {gap.fact for gap in gaps})


@pytest.mark.parametrize(
    ("own", "bind", "way"),
    [
        (("10.0.0.1",), "", ("eth0", "10.0.0.1")),
        (("fd00::2", "10.0.0.2"), "ib0", ("ib0", "10.0.0.2")),
        ((), "10.0.0.2", ("ib0", "10.0.0.2")),
        ((), "", ("", "")),
        ((), "ib7", ("", "")),
        (("10.0.0.9",), "", ("", "")),  # not one of them: any may be itself
    ],
)
def test_the_way_to_the_others_is_told(own: tuple[str, ...], bind: str, way: tuple[str, str]) -> None:
    """The interface that `fleet.bind` means, else the one by which packets to another node leave."""
    fleet, _ = collect_fleet(AskedHost("node9"), ask("static", "node1", "node2", bind=bind), network(*own))

    assert way == (fleet.interface, fleet.address)


def test_a_name_stands_for_all_its_addresses() -> None:
    """The nodes behind a DNS name are its addresses, each once, in the order of numbers."""
    for how in ("dns", "kubernetes"):
        fleet, gaps = collect_fleet(AskedHost(), ask(how, dns="fleet.example"), network("10.0.0.9"))  # type: ignore[arg-type]

        assert (1, "addresses of fleet.example", ()) == (fleet.me, fleet.found_by, gaps)
        assert ("10.0.0.1", "10.0.0.9", "10.0.0.10") == tuple(node.host for node in fleet.nodes)


def test_a_name_without_addresses_is_a_gap() -> None:
    """A resolver that does not know the name leaves the fleet unknown, not empty."""
    fleet, gaps = collect_fleet(AskedHost(), ask("dns", dns="nowhere.example"), network())

    assert FleetFacts(found_by="addresses of nowhere.example") == fleet
    assert [("fleet.nodes", "Name or service not known")] == [(gap.fact, gap.reason) for gap in gaps]


@pytest.mark.parametrize(
    ("env", "me", "hosts"),
    [
        ({"SLURM_JOB_NODELIST": "n[1-3]", "SLURM_NODEID": "2"}, 2, ("n1", "n2", "n3")),
        ({"SLURM_JOB_NODELIST": "n[1-3]", "SLURM_STEP_NODELIST": "n[2-3]", "SLURM_NODEID": "1"}, 1, ("n2", "n3")),
        ({"SLURM_JOB_NODELIST": "n[1-3]", "SLURMD_NODENAME": "n2"}, 1, ("n1", "n2", "n3")),
        ({"SLURM_JOB_NODELIST": "n[1-3]", "SLURM_NODEID": "7"}, None, ("n1", "n2", "n3")),
        ({"SLURM_JOB_NODELIST": "n[1-"}, None, ()),
        ({}, None, ()),
    ],
)
def test_slurm_says_which_nodes_a_job_has(env: dict[str, str], me: int | None, hosts: tuple[str, ...]) -> None:
    """The step's list before the job's; a node's name before its number."""
    fleet, gaps = collect_fleet(AskedHost(env=env), ask("slurm"), network())

    assert (me, hosts) == (fleet.me, tuple(node.host for node in fleet.nodes))
    assert (me is None) == bool(gaps)


@pytest.mark.parametrize(
    ("index", "size", "me", "hosts"),
    [("0", "3", 0, WORKERS), ("2", "3", 2, WORKERS), ("3", "3", None, WORKERS), ("0", "x", None, ())],
)
def test_a_worker_set_says_its_group(index: str, size: str, me: int | None, hosts: tuple[str, ...]) -> None:
    """Leader address, size and index of LeaderWorkerSet give all nodes and this one."""
    env = {"LWS_LEADER_ADDRESS": WORKERS[0], "LWS_GROUP_SIZE": size, "LWS_WORKER_INDEX": index}
    fleet, gaps = collect_fleet(AskedHost(env=env), ask("lws"), network())

    assert (me, hosts) == (fleet.me, tuple(node.host for node in fleet.nodes))
    assert (me is None) == bool(gaps)


def test_without_a_fleet_nobody_is_asked() -> None:
    """No list, no lookups, no gaps."""

    def refuse(*_: object) -> frozenset[str]:
        raise AssertionError("asked")

    assert (FleetFacts(), ()) == collect_fleet(AskedHost(), FleetAsk(), Network(refuse, refuse))  # type: ignore[arg-type]


def test_a_recorded_machine_knows_a_static_list_and_asks_no_resolver(tmp_path: Path) -> None:
    """What depends on an environment or a network is a gap there."""
    host = RecordedHost(tmp_path)

    assert (2, None) == (len(collect_fleet(host, ask("static", "a", "b"))[0].nodes), None)
    assert ["fleet.nodes"] == [gap.fact for gap in collect_fleet(host, ask("dns", dns="localhost"))[1]]
    assert ["fleet.nodes"] == [gap.fact for gap in collect_fleet(host, ask("slurm"))[1]]
