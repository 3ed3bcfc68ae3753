"""Which network interfaces and RDMA ports are there, near which NUMA node, and do they have a link?"""

from __future__ import annotations

import posixpath
import re
from typing import TYPE_CHECKING

from kboot.facts.gpu import normal_bus_id
from kboot.facts.reader import Reader, node_number, whole_number
from kboot.facts.types import Nic, RdmaPort

if TYPE_CHECKING:
    from kboot.facts.basic_types import Gap
    from kboot.host.types import Host

_NET = "/sys/class/net"
_RDMA = "/sys/class/infiniband"


def collect_network(host: Host) -> tuple[tuple[Nic, ...], tuple[RdmaPort, ...], tuple[Gap, ...]]:
    """Read interfaces that sit on a bus (no bridges, no tunnels), and every port of every RDMA device."""
    reader = Reader(host)
    nics = tuple(_nic(reader, name) for name in reader.names(_NET) if host.exists(f"{_NET}/{name}/device"))
    ports = tuple(
        _port(reader, device, number)
        for device in reader.names(_RDMA)
        for number in sorted(filter(None, map(whole_number, reader.names(f"{_RDMA}/{device}/ports"))))
    )
    return nics, ports, reader.gaps


def _nic(reader: Reader, name: str) -> Nic:
    folder = f"{_NET}/{name}"
    speed = whole_number(reader.optional(f"{folder}/speed") or "")  # cannot be read while there is no link
    return Nic(
        name=name,
        state=(reader.text(f"nics.{name}.state", f"{folder}/operstate") or "").strip(),
        rate_mbit_s=speed if speed is not None and speed > 0 else None,
        mtu=whole_number(reader.optional(f"{folder}/mtu") or ""),
        numa_node=node_number(reader, f"{folder}/device/numa_node"),
        bus_id=_bus_id(reader, f"{folder}/device"),
    )


def _port(reader: Reader, device: str, number: int) -> RdmaPort:
    folder = f"{_RDMA}/{device}/ports/{number}"
    rate = re.match(r"[\d.]+", (reader.optional(f"{folder}/rate") or "").strip())
    return RdmaPort(
        device=device,
        port=number,
        state=_word(reader.text(f"rdma.{device}.{number}.state", f"{folder}/state") or ""),
        phys_state=_word(reader.optional(f"{folder}/phys_state") or ""),
        rate_gbit_s=float(rate.group()) if rate else None,
        link_layer=(reader.optional(f"{folder}/link_layer") or "").strip(),
        numa_node=node_number(reader, f"{_RDMA}/{device}/device/numa_node"),
        bus_id=_bus_id(reader, f"{_RDMA}/{device}/device"),
    )


def _word(text: str) -> str:
    """Return the word of "4: ACTIVE"."""
    return text.rpartition(":")[2].strip()


def _bus_id(reader: Reader, link: str) -> str:
    """Return the PCI address a device link leads to; empty where it is on no PCI bus (virtio)."""
    try:
        return normal_bus_id(posixpath.basename(reader.host.link_target(link)))
    except (OSError, ValueError):
        return ""
