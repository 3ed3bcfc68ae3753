"""Which other nodes serve the same model, and which of them is this one?"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING

from kboot.facts.fleet_names import (
    expand_hostlist,
    hosts_of_group,
    nodes_of_addresses,
    nodes_of_hosts,
    nodes_of_peers,
    place_of,
)
from kboot.facts.fleet_record import record_from_text
from kboot.facts.fleet_types import FleetFacts, FleetNode
from kboot.facts.reader import Reader, whole_number
from kboot.host.names import addresses_of, interface_of, is_address, own_addresses
from kboot.host.range_server import address_to
from kboot.values import dataclass

if TYPE_CHECKING:
    from kboot.facts.basic_types import Gap
    from kboot.host.paths import Paths
    from kboot.host.types import Host
    from kboot.profile.types import FleetAsk

_LOOK_UP_S = 5.0
_AT_ONCE = 64
_RECORD_BYTES = 16 << 20
_FACT = "fleet"


@dataclass(frozen=True, slots=True)
class Network:
    """What is asked of names and interfaces. addresses: of a name within so many seconds. own: of an interface, or all.

    way: this machine's address on the way to a host and port, empty without one. interface: that has an address.
    The first two raise OSError when there is no answer.
    """

    addresses: Callable[[str, float], Sequence[str]] = addresses_of
    own: Callable[[str], frozenset[str]] = own_addresses
    way: Callable[[str, int], str] = address_to
    interface: Callable[[str], str] = interface_of


def collect_fleet(host: Host, ask: FleetAsk, network: Network | None = None) -> tuple[FleetFacts, tuple[Gap, ...]]:
    """Return the fleet that `[fleet]` means; without one nothing is looked up.

    A recorded machine has no environment and no network of its own: a static list is all that it can tell.
    """
    if ask.discovery == "none":
        return FleetFacts(), ()
    return _Collector(host, ask, network or Network()).collect()


def with_last_meeting(fleet: FleetFacts, host: Host, paths: Paths) -> FleetFacts:
    """Return the fleet with what its nodes stated when they met last; as it is where no record says so."""
    try:
        record = record_from_text(host.read_text(host.machine_path(paths.fleet), _RECORD_BYTES))
    except (OSError, ValueError):  # gone meanwhile, or of another version: nothing was stated as far as we know
        return fleet
    return replace(fleet, statements=record.statements, stated_unix_s=record.unix_s)


class _Collector:
    """One look at the fleet."""

    def __init__(self, host: Host, ask: FleetAsk, network: Network) -> None:
        self.ask, self.network = ask, network
        self.reader = Reader(host)
        self.live = host.live
        self.env = host.environ()

    def collect(self) -> tuple[FleetFacts, tuple[Gap, ...]]:
        """Return the nodes and this node's place."""
        place: int | None = None
        match self.ask.discovery:
            case "static":
                source = "fleet.peers"
                nodes = self._parsed(source, lambda: nodes_of_peers(self.ask.peers, self.ask.port))
            case "dns" | "kubernetes":
                source = f"addresses of {self.ask.dns}"
                nodes = self._parsed(source, self._behind_name)
            case "slurm":
                source, nodes, place = self._slurm()
            case _:
                source, nodes, place = self._group()
        if not nodes:
            return FleetFacts(found_by=source), self.reader.gaps
        if place is None and self.live:
            place = self._place(nodes)
        interface, address = self._way(nodes, place) if self.live else ("", "")
        return FleetFacts(place, nodes, source, interface=interface, address=address), self.reader.gaps

    def _parsed(self, source: str, nodes: Callable[[], tuple[FleetNode, ...]]) -> tuple[FleetNode, ...]:
        try:
            return nodes()
        except (ValueError, OSError) as exc:
            self.reader.gap(f"{_FACT}.nodes", source, exc)
            return ()

    def _behind_name(self) -> tuple[FleetNode, ...]:
        if not self.live:
            raise OSError("a recorded machine asks no resolver")
        return nodes_of_addresses(self.network.addresses(self.ask.dns, _LOOK_UP_S), self.ask.port)

    def _slurm(self) -> tuple[str, tuple[FleetNode, ...], int | None]:
        """A step may run on a part of its job's nodes, and SLURM_NODEID counts within the step."""
        names = ("SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST", "SLURM_NODELIST")
        source = next((name for name in names if self.env.get(name)), names[1])
        hosts = self._parsed(source, lambda: nodes_of_hosts(expand_hostlist(self._value(source)), self.ask.port))
        name = self.env.get("SLURMD_NODENAME", "")
        places = [number for number, node in enumerate(hosts) if node.host == name]
        return source, hosts, places[0] if places else self._number("SLURM_NODEID", len(hosts))

    def _group(self) -> tuple[str, tuple[FleetNode, ...], int | None]:
        source = "LWS_LEADER_ADDRESS"
        size = whole_number(self.env.get("LWS_GROUP_SIZE", "")) or 0
        nodes = self._parsed(source, lambda: nodes_of_hosts(hosts_of_group(self._value(source), size), self.ask.port))
        return source, nodes, self._number("LWS_WORKER_INDEX", len(nodes))

    def _value(self, name: str) -> str:
        if not (value := self.env.get(name, "")):
            raise ValueError("this variable is not set")
        return value

    def _number(self, name: str, below: int) -> int | None:
        number = whole_number(self.env.get(name, ""))
        return number if number is not None and 0 <= number < below else None

    def _place(self, nodes: tuple[FleetNode, ...]) -> int | None:
        """Find this node among the others by its addresses and its name."""
        try:
            mine = self._mine()
        except OSError as exc:
            self.reader.gap(f"{_FACT}.me", self.ask.bind or "own addresses", exc)
            return None
        place = place_of(nodes, mine, self.ask.port, {})
        if place is None:
            place = place_of(nodes, mine, self.ask.port, self._addresses(nodes))
        if place is None:
            self.reader.gap(f"{_FACT}.me", "own addresses", f"none of {len(nodes)} nodes is this one, or several are")
        return place

    def _way(self, nodes: tuple[FleetNode, ...], place: int | None) -> tuple[str, str]:
        """Return interface and address of this node towards the others: those of `fleet.bind`, or where packets go."""
        bind = self.ask.bind
        others = () if place is None else nodes[:place] + nodes[place + 1 :]  # the way to itself is a loopback
        if bind and not is_address(bind):
            try:
                found = self.network.own(bind)
            except OSError:  # said by _place
                return "", ""
            return bind, min(found, key=lambda text: (":" in text, text), default="")
        address = bind or (self.network.way(others[0].host, others[0].port) if others else "")
        return (self.network.interface(address), address) if address else ("", "")

    def _mine(self) -> frozenset[str]:
        if is_address(self.ask.bind):
            return frozenset({self.ask.bind})
        own = self.network.own(self.ask.bind)
        if self.ask.bind:
            return own
        given = (self.env.get("POD_IP", ""), self.reader.host.hostname())
        return own | {name for name in given if name}

    def _addresses(self, nodes: Sequence[FleetNode]) -> Mapping[str, Sequence[str]]:
        """Look names up, several at once; one that has no address is simply not this node's."""

        def ask(name: str) -> Sequence[str]:
            try:
                return self.network.addresses(name, _LOOK_UP_S)
            except OSError:
                return ()

        names = sorted({node.host for node in nodes if not is_address(node.host)})
        with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="names") as pool:
            return dict(zip(names, pool.map(ask, names), strict=True))
