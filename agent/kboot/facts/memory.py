"""How much memory is there, how much may be used, and how much is left?"""

from __future__ import annotations

from collections.abc import Mapping

from kboot.facts.cgroup import memory_limit_bytes
from kboot.facts.reader import Reader, kib_lines
from kboot.facts.types import Gap, MemoryFacts
from kboot.host.types import DiskSpace, Host

MEMINFO = "/proc/meminfo"
_SHM = "/dev/shm"


def collect_memory(host: Host) -> tuple[MemoryFacts, tuple[Gap, ...]]:
    """Read the memory of the machine and of the cgroups around this process. What is not known is 0 and a Gap."""
    reader = Reader(host)
    found = kib_lines(reader.text("memory", MEMINFO) or "")
    shm = _shm(reader)
    facts = MemoryFacts(
        total_bytes=_needed(reader, found, "total_bytes", "MemTotal"),
        available_bytes=_needed(reader, found, "available_bytes", "MemAvailable"),
        limit_bytes=memory_limit_bytes(reader),
        hugepages_bytes=_hugepages_bytes(reader, found),
        swap_used_bytes=found.get("SwapTotal", 0) - found.get("SwapFree", 0),
        shm_total_bytes=shm.total_bytes if shm else None,
        shm_free_bytes=shm.free_bytes if shm else None,
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
        if name == "HugePages_Total" and count.strip().isdecimal():
            return int(count) * found.get("Hugepagesize", 0)
    return 0


def _shm(reader: Reader) -> DiskSpace | None:
    try:
        return reader.host.disk_space(_SHM)
    except OSError as exc:
        reader.gap("memory.shm", _SHM, exc)
        return None
