"""A node joins its fleet with a boot, and gives to it until its process ends."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from random import Random

import pytest

from booting import Node, profile
from fakes.checkpoints import framed
from fakes.fleet import bytes_asked
from fakes.hub import COMMIT, REPO, FakeHub
from fakes.peer import own_address
from kboot.apply.joining import Peering
from kboot.apply.peering import bind_address
from kboot.boot import boot
from kboot.errors import ActionFailed, ProfileError, SourceError
from kboot.facts.fleet_types import FleetFacts, FleetNode
from kboot.host.paths import Paths
from kboot.host.range_server import RangeServer, Reply
from kboot.options import BootOptions
from kboot.profile.types import CheckpointAsk, FleetAsk, Profile
from kboot.report.types import BootReport

MIB = 1 << 20
BYTES = BootOptions(only=frozenset({"fetch", "verify", "publish"}))
DEADLINE_S = 90.0


def shard(seed: int) -> bytes:
    header = b'{"w":{"dtype":"U8","shape":[5242880],"data_offsets":[0,5242880]}}'
    return framed(header, Random(seed).randbytes(5 * MIB))


@cache
def contents() -> dict[str, bytes]:
    return {f"model-{n}.safetensors": shard(n) for n in range(3)} | {"config.json": b"{}"}


@dataclass
class Boot:
    """A node of a fleet of `count`, and the boot of its bytes in a thread."""

    folder: Path
    hub: FakeHub
    number: int
    count: int
    peering: Peering | None = None
    reports: list[BootReport] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.folder.mkdir(exist_ok=True)
        self.node = Node(self.folder, self.hub.url)
        self.key = self.folder / "fleet.key"
        self.key.write_text("the key of this fleet, 32 or more")
        self.key.chmod(0o600)

    @property
    def asked(self) -> Profile:
        peers = tuple(own_address(number) for number in range(1, self.count + 1))
        fleet = FleetAsk(discovery="static", peers=peers, bind=own_address(self.number), key_file=str(self.key))
        return profile(checkpoint=CheckpointAsk(repo=REPO, revision=COMMIT), fleet=fleet)

    def run(self) -> BootReport:
        """Fetch."""
        node = self.node
        tell, stop = node.seen.append, node.stop
        self.reports.append(boot(self.asked, node.host, node.paths, BYTES, tell, stop, peering=self.peering))
        return self.reports[-1]


def together(boots: list[Boot]) -> list[str]:
    threads = [threading.Thread(target=one.run, daemon=True) for one in boots]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(DEADLINE_S)
    return [one.reports[-1].status for one in boots]


def test_boots_of_a_fleet_share_their_origin(tmp_path: Path) -> None:
    """Three nodes fetch at once: each is done, and the Hub was asked for about one copy."""
    with FakeHub(contents()) as hub:
        boots = [Boot(tmp_path / f"n{n}", hub, n, 3) for n in (1, 2, 3)]

        assert ["done"] * 3 == together(boots)
        assert 1.5 * hub.bytes_of_files >= bytes_asked(hub)  # one that begins seconds later may find its part begun


def test_a_process_gives_as_long_as_it_lives(tmp_path: Path) -> None:
    """A daemon's node has booted; one that comes an hour later asks the Hub for no file."""
    with FakeHub(contents()) as hub, Peering(Paths(tmp_path, tmp_path, tmp_path)) as peering:
        first = Boot(tmp_path / "n1", hub, 1, 2, peering)
        assert "done" == first.run().status
        hub.requests.clear()
        second = Boot(tmp_path / "n2", hub, 2, 2)

        assert "done" == second.run().status
        assert 0 == bytes_asked(hub)


def test_a_second_boot_of_a_process_is_the_same_member(tmp_path: Path) -> None:
    """The port is kept; another profile leaves the fleet."""
    with FakeHub(contents()) as hub, Peering(Paths(tmp_path, tmp_path, tmp_path)) as peering:
        one = Boot(tmp_path / "n1", hub, 1, 1, peering)
        member = peering.join(one.asked, one.node.host, one.node.seen.append)

        assert member is not None
        assert member is peering.join(one.asked, one.node.host, one.node.seen.append)
        assert None is peering.join(replace(one.asked, fleet=FleetAsk()), one.node.host, one.node.seen.append)
        server = RangeServer(own_address(1), 7417, lambda _: Reply(200))  # it is free again
        server.close()


def test_a_port_that_is_taken_keeps_no_node_from_its_work(tmp_path: Path) -> None:
    """As where the daemon has it, and somebody fetches by hand: it is said."""
    with FakeHub(contents()) as hub:
        taken = RangeServer(own_address(1), 7417, lambda _: Reply(200))
        one = Boot(tmp_path / "n1", hub, 1, 1)
        status = one.run().status
        taken.close()

    assert "done" == status
    assert "listen for the other nodes" in one.node.notices()["peers.not_served"]


def test_a_node_that_is_none_of_the_fleet_works_alone(tmp_path: Path) -> None:
    """It is said, and nothing is asked of the others."""
    with FakeHub(contents()) as hub:
        one = Boot(tmp_path / "n9", hub, 9, 2)

        assert "done" == one.run().status
        assert "2 nodes by fleet.peers" in one.node.notices()["fleet.not_joined"]


def test_the_first_node_behind_a_name_need_not_wait_for_others(tmp_path: Path) -> None:
    """Nobody else is there yet; whoever comes while it fetches would be noticed."""
    with FakeHub(contents()) as hub:
        node = Boot(tmp_path / "n1", hub, 1, 1)
        fleet = replace(node.asked.fleet, discovery="dns", peers=(), dns=own_address(1))
        asked, tell = replace(node.asked, fleet=fleet), node.node.seen.append
        report = boot(asked, node.node.host, node.node.paths, BYTES, tell, node.node.stop)

        assert "done" == report.status
        assert hub.bytes_of_files == bytes_asked(hub)


def test_a_fleet_without_a_key_is_refused(tmp_path: Path) -> None:
    """Before anything is asked or answered."""
    with FakeHub(contents()) as hub:
        one = Boot(tmp_path / "n1", hub, 1, 2)
        one.key.unlink()
        with pytest.raises(ActionFailed) as caught:
            one.run()

    assert "fleet-key-not-usable" == caught.value.code
    assert [] == hub.requests


HERE, THERE = FleetNode("n0", "127.0.0.7", 7417), FleetNode("n1", "127.0.0.1", 7417)


@pytest.mark.parametrize(
    ("bind", "me", "wanted"),
    [
        ("", HERE, "127.0.0.7"),
        ("", FleetNode("n0", "localhost", 7417), "127.0.0.1"),
        ("lo", HERE, "127.0.0.1"),
        ("127.0.0.9", HERE, "127.0.0.9"),
    ],
)
def test_a_node_answers_on_one_address(bind: str, me: FleetNode, wanted: str) -> None:
    """The one that was asked for, its own in the list, or the one on the way to the others."""
    assert wanted == bind_address(FleetAsk(bind=bind), FleetFacts(0, (me, THERE), "fleet.peers"), me)


@pytest.mark.parametrize("bind", ["0.0.0.0", "::", "::ffff:0.0.0.0", "nothing0"])
def test_a_node_never_answers_everywhere(bind: str) -> None:
    """All addresses at once, or an interface that is not there."""
    with pytest.raises(ProfileError) as caught:
        bind_address(FleetAsk(bind=bind), FleetFacts(0, (HERE, THERE), "fleet.peers"), HERE)

    assert "fleet-bind-not-valid" == caught.value.code


def test_a_network_that_is_not_up_yet_is_waited_for() -> None:
    """No address on the way to the others is no mistake of the profile's: the same boot may succeed later."""
    away = FleetNode("n1", "nowhere.invalid", 7417)
    with pytest.raises(SourceError) as caught:
        bind_address(FleetAsk(), FleetFacts(0, (FleetNode("n0", "n0.invalid", 7417), away), "x"), away)

    assert ("no-way-to-fleet", True) == (caught.value.code, caught.value.retry)
