"""Which nodes does a list name, as an operator, Slurm, LeaderWorkerSet or a resolver writes it? Pure."""

from __future__ import annotations

import ipaddress
import itertools
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence

from kboot.addresses import host_port
from kboot.facts.fleet_types import FleetNode
from kboot.profile.rules import peer_of

MOST_NODES = 4096
"""A list that names more is taken for a mistake."""

_BRACKETS = re.compile(r"\[([^][]*)\]")
_SPAN = re.compile(r"(\d+)(?:-(\d+))?")
_HOST = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*")


def nodes_of_peers(peers: Sequence[str], port: int) -> tuple[FleetNode, ...]:
    """Return the nodes of `fleet.peers` in its order, each once.

    Raises:
        ValueError: one is not of the form host or host:port.
    """
    found = []
    for text in peers:
        peer = peer_of(text, port)
        if peer is None:
            raise ValueError(f"{text!r} is not a host, or host:port")
        found.append(peer)
    return _named(found)


def nodes_of_addresses(addresses: Iterable[str], port: int) -> tuple[FleetNode, ...]:
    """Return the nodes behind a DNS name, in the order of their addresses: resolvers answer in any order.

    Raises:
        ValueError: there are more than MOST_NODES.
    """
    addresses = set(addresses)
    if len(addresses) > MOST_NODES:
        raise ValueError(f"{len(addresses)} addresses, more than {MOST_NODES} nodes")
    ordered = sorted(addresses, key=lambda a: (ipaddress.ip_address(a).version, int(ipaddress.ip_address(a))))
    return _named([(address, port) for address in ordered])


def nodes_of_hosts(hosts: Sequence[str], port: int) -> tuple[FleetNode, ...]:
    """Return the nodes of host names, in their order, each once."""
    return _named([(host, port) for host in hosts])


def expand_hostlist(text: str) -> tuple[str, ...]:
    """Return the host names of a Slurm list, "gpu[01-03,7],login" or "r[1-2]n[1-2]", in its order.

    Raises:
        ValueError: it is not of that form, or names more than MOST_NODES.
    """
    found: list[str] = []
    for part in _split(text):
        pieces = _BRACKETS.split(part)
        choices = [_numbers(piece) if number % 2 else [piece] for number, piece in enumerate(pieces)]
        for words in itertools.product(*choices):
            if len(found) >= MOST_NODES:
                raise ValueError(f"names more than {MOST_NODES} nodes")
            found.append("".join(words))
    if wrong := next((host for host in found if not _HOST.fullmatch(host)), None):
        raise ValueError(f"{wrong!r} is no host name")
    return tuple(found)


def hosts_of_group(leader: str, size: int) -> tuple[str, ...]:
    """Return the addresses of a LeaderWorkerSet's group, its leader first.

    leader: "<set>-<group>.<subdomain>.<namespace>"; worker n is "<set>-<group>-n" in the same subdomain.

    Raises:
        ValueError: size is not between 1 and MOST_NODES, or the leader is no host name.
    """
    if not _HOST.fullmatch(leader) or not 1 <= size <= MOST_NODES:
        raise ValueError(f"leader {leader!r} and size {size} are no group")
    name, dot, domain = leader.partition(".")
    return (leader, *(f"{name}-{worker}{dot}{domain}" for worker in range(1, size)))


def place_of(
    nodes: Sequence[FleetNode], mine: Collection[str], port: int, addresses: Mapping[str, Collection[str]]
) -> int | None:
    """Return which node is this one; None where none is, or where several could be.

    mine: names and addresses of this machine. addresses: those of each host that is a name.
    """
    own = {name.lower() for name in mine}
    here = [
        number
        for number, node in enumerate(nodes)
        if node.host.lower() in own or own & {a.lower() for a in addresses.get(node.host, ())}
    ]
    if len(here) > 1:
        here = [number for number in here if nodes[number].port == port]
    return here[0] if len(here) == 1 else None


def _named(peers: Sequence[tuple[str, int]]) -> tuple[FleetNode, ...]:
    unique = list(dict.fromkeys(peers))
    hosts = Counter(host for host, _ in unique)
    return tuple(FleetNode(host if hosts[host] == 1 else host_port(host, port), host, port) for host, port in unique)


def _split(text: str) -> list[str]:
    """Return the entries of a list whose commas inside brackets do not count."""
    if text.count("[") != text.count("]") or re.search(r"\[[^\]]*\[", text):
        raise ValueError("its brackets do not match")
    return [part for part in re.split(r",(?![^\[]*\])", text.strip()) if part]


def _numbers(text: str) -> list[str]:
    """Return "01", "02", "7" of "01-02,7"; leading zeros are part of the names."""
    found: list[str] = []
    for part in text.split(","):
        match = _SPAN.fullmatch(part)
        if match is None:
            raise ValueError(f"[{text}] is no list of numbers")
        first, last = match[1], match[2] or match[1]
        if not 0 <= int(last) - int(first) < MOST_NODES:
            raise ValueError(f"[{text}] runs backwards, or too far")
        found += [str(n).zfill(len(first)) for n in range(int(first), int(last) + 1)]
    return found
