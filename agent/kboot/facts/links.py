"""Which PCI bridges are above the GPUs and network cards, and what couples GPUs of several nodes?"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from kboot.facts.link_types import Bridge, Imex, LinkFacts
from kboot.facts.reader import Reader

if TYPE_CHECKING:
    from kboot.facts.gpu import Answers
    from kboot.host.types import Host

_PCI = "/sys/bus/pci/devices"
_ADDRESS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
_UNITS = "/sys/fs/cgroup/system.slice"
_IMEX_PROCS = f"{_UNITS}/nvidia-imex.service/cgroup.procs"
_IMEX_NODES = "/etc/nvidia-imex/nodes_config.cfg"
_IMEX_CHANNELS = "/dev/nvidia-caps-imex-channels"

_CONFIG_BYTES = 4096
_EXTENDED_AT = 0x100
_ACS = 0x000D
_REDIRECTS = (("request", 1 << 2), ("completion", 1 << 3), ("upstream", 1 << 4))
_MOST_CAPABILITIES = 96  # more do not fit into 4096 bytes: a list that goes on is a circle


def collect_links(
    host: Host, answers: Answers | OSError, gpu_bus_ids: tuple[str, ...], rdma_bus_ids: tuple[str, ...]
) -> LinkFacts:
    """Read what lies between the devices. None of it is there on every sound machine, so absence is no Gap."""
    if not gpu_bus_ids:
        return LinkFacts()
    reader = Reader(host)
    ours = sorted({*gpu_bus_ids, *rdma_bus_ids} - {""})
    path_of = {bus_id: path for bus_id in ours if (path := _path(reader, bus_id)) is not None}
    return LinkFacts(
        path_of=path_of,
        bridges=tuple(Bridge(b, acs_redirects(_config(reader, b))) for b in below_shared(path_of.values())),
        imex=_imex(reader),
        confidential=_confidential(answers),
    )


def below_shared(paths: Iterable[tuple[str, ...]]) -> tuple[str, ...]:
    """Return the bridges below one that several devices share: there traffic between them turns round."""
    found = list(paths)
    users = Counter(bridge for path in found for bridge in path)
    return tuple(sorted({bridge for path in found for above, bridge in pairwise(path) if users[above] > 1}))


def acs_redirects(config: bytes | None) -> tuple[str, ...] | None:
    """Return which redirects of peer traffic a bridge's configuration space switches on; None where it cannot be read.

    Without privilege the kernel gives the first 64 bytes only. Format: PCI Express Base Specification, "ACS Extended
    Capability": id in the low 16 bits of a capability's header, next in its high 12, control register at +6.
    """
    if config is None or len(config) <= _EXTENDED_AT:
        return None
    at = _EXTENDED_AT
    for _ in range(_MOST_CAPABILITIES):
        header = int.from_bytes(config[at : at + 4], "little")
        if header & 0xFFFF == _ACS:
            control = int.from_bytes(config[at + 6 : at + 8], "little")
            return tuple(name for name, bit in _REDIRECTS if control & bit)
        at = header >> 20
        if at < _EXTENDED_AT:
            break
    return ()


def _path(reader: Reader, bus_id: str) -> tuple[str, ...] | None:
    """Return the bridges that the device's place in sysfs names ("…/devices/pci0000:00/0000:00:01.0/0000:01:00.0")."""
    try:
        target = reader.host.link_target(f"{_PCI}/{bus_id}")
    except OSError:
        return None
    return tuple(part for part in target.split("/")[:-1] if _ADDRESS.fullmatch(part))


def _config(reader: Reader, bus_id: str) -> bytes | None:
    try:
        return reader.host.read_bytes(f"{_PCI}/{bus_id}/config", _CONFIG_BYTES)
    except OSError:
        return None


def _imex(reader: Reader) -> Imex:
    lines = reader.optional(_IMEX_NODES)
    nodes = None
    if lines is not None:
        nodes = sum(1 for line in lines.splitlines() if line.strip() and not line.lstrip().startswith("#"))
    return Imex(
        running=bool((reader.optional(_IMEX_PROCS) or "").strip()) if reader.host.exists(_UNITS) else None,
        nodes=nodes,
        channels=reader.names(_IMEX_CHANNELS),
    )


def _confidential(answers: Answers | OSError) -> str | None:
    told: Any = answers.get("confidential") if isinstance(answers, Mapping) else None
    if not isinstance(told, dict) or "error" in told:
        return None
    if not told.get("feature"):
        return "off"
    if told.get("ready") is False:
        return "not-ready"
    return "devtools" if told.get("devtools") else "on"
