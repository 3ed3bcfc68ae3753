"""How much memory is there, how much may be used, and how much is left?"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from kboot.facts.basic_types import Gap, MemoryFacts
from kboot.facts.cgroup import memory_left_bytes, memory_limit_bytes
from kboot.facts.mounts import MOUNTINFO, parse_mountinfo
from kboot.facts.reader import Reader, kib_lines, whole_number

if TYPE_CHECKING:
    from kboot.host.types import Host

MEMINFO = "/proc/meminfo"
_SHM = "/dev/shm"
_SIZE = re.compile(r"size=(\d{1,20})([kmg%]?)")


def collect_memory(host: Host) -> tuple[MemoryFacts, tuple[Gap, ...]]:
    """Read the memory of the machine and of the cgroups around this process. What is not known is 0 and a Gap."""
    reader = Reader(host)
    found = kib_lines(reader.text("memory", MEMINFO) or "")
    shm_total_bytes, shm_free_bytes = _shm(reader, found.get("MemTotal", 0))
    facts = MemoryFacts(
        total_bytes=_needed(reader, found, "total_bytes", "MemTotal"),
        available_bytes=_needed(reader, found, "available_bytes", "MemAvailable"),
        limit_bytes=memory_limit_bytes(reader),
        hugepages_bytes=_hugepages_bytes(reader, found),
        swap_used_bytes=found.get("SwapTotal", 0) - found.get("SwapFree", 0),
        shm_total_bytes=shm_total_bytes,
        shm_free_bytes=shm_free_bytes,
        left_bytes=memory_left_bytes(reader),
    )
    return facts, reader.gaps


def _needed(reader: Reader, found: Mapping[str, int], fact: str, name: str) -> int:
    if found and name not in found:
        reader.gap(f"memory.{fact}", MEMINFO, f"no {name} line")
    return found.get(name, 0)


def _hugepages_bytes(reader: Reader, found: Mapping[str, int]) -> int:
    """Return what huge pages of every size hold; older kernels only say it for the default size."""
    if "Hugetlb" in found:
        return found["Hugetlb"]
    for line in (reader.optional(MEMINFO) or "").splitlines():
        name, _, count = line.partition(":")
        if name == "HugePages_Total":
            return (whole_number(count) or 0) * found.get("Hugepagesize", 0)
    return 0


def _shm(reader: Reader, memory_bytes: int) -> tuple[int | None, int | None]:
    """Return the size of /dev/shm and what is free; the size alone where only its mount options are known."""
    try:
        space = reader.host.disk_space(_SHM)
    except OSError as exc:
        reader.gap("memory.shm", _SHM, exc)
        return _mounted_bytes(reader, memory_bytes), None
    return space.total_bytes, space.free_bytes


def _mounted_bytes(reader: Reader, memory_bytes: int) -> int | None:
    """Return the `size=` of the tmpfs at /dev/shm: "65536k", "2g", "50%" of the memory."""
    mounts = [m for m in parse_mountinfo(reader.optional(MOUNTINFO) or "") if m.mount_point == _SHM]
    for option in mounts[-1].super_options if mounts else ():
        match = _SIZE.fullmatch(option)
        if match is None:
            continue
        number, unit = int(match.group(1)), match.group(2)
        if unit == "%":
            return number * memory_bytes // 100 or None
        return number << {"": 0, "k": 10, "m": 20, "g": 30}[unit]
    return None
