"""Which disks and RAIDs are there, near which NUMA node, and is a RAID whole?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from kboot.facts.reader import Reader, node_number, whole_number
from kboot.facts.types import Disk

if TYPE_CHECKING:
    from kboot.facts.basic_types import Gap
    from kboot.host.types import Host

_BLOCK = "/sys/block"
_NOT_DISKS = ("loop", "ram", "zram", "sr", "fd", "nbd")
_SECTOR_BYTES = 512  # sysfs counts in these, whatever the disk's own sectors are


def collect_disks(host: Host) -> tuple[tuple[Disk, ...], tuple[Gap, ...]]:
    """Read the block devices; partitions, loops and memory disks are left out."""
    reader = Reader(host)
    names = (name for name in reader.names(_BLOCK) if not name.startswith(_NOT_DISKS))
    return tuple(_disk(reader, name) for name in names), reader.gaps


def _disk(reader: Reader, name: str) -> Disk:
    folder = f"{_BLOCK}/{name}"
    kind = _kind(name)
    sectors = whole_number(reader.text(f"disks.{name}.size_bytes", f"{folder}/size") or "")
    rotational = whole_number(reader.optional(f"{folder}/queue/rotational") or "")
    read_ahead = whole_number(reader.optional(f"{folder}/queue/read_ahead_kb") or "")
    return Disk(
        name=name,
        kind=kind,
        model=(reader.optional(f"{folder}/device/model") or "").strip(),
        size_bytes=None if sectors is None else sectors * _SECTOR_BYTES,
        rotational=None if rotational is None else rotational == 1,
        read_ahead_bytes=None if read_ahead is None else read_ahead * 1024,
        numa_node=_node(reader, folder),
        members=reader.names(f"{folder}/slaves") if kind in ("raid", "mapped") else (),
        raid_level=(reader.optional(f"{folder}/md/level") or "").strip() if kind == "raid" else "",
        degraded=whole_number(reader.optional(f"{folder}/md/degraded") or "") if kind == "raid" else None,
    )


def _kind(name: str) -> Literal["nvme", "raid", "mapped", "disk"]:
    if name.startswith("nvme"):
        return "nvme"
    if name.startswith("md"):
        return "raid"
    return "mapped" if name.startswith("dm-") else "disk"


def _node(reader: Reader, folder: str) -> int | None:
    """Return the node of the disk's controller; an NVMe's own entry says it, others have it one step further."""
    found = node_number(reader, f"{folder}/device/numa_node")
    return node_number(reader, f"{folder}/device/device/numa_node") if found is None else found
