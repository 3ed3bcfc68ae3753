"""How is the kernel set, and which of its counters tell of trouble?"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from kboot.facts.cgroup import levels
from kboot.facts.mounts import MOUNTINFO, parse_mountinfo
from kboot.facts.reader import Reader, whole_number
from kboot.facts.system_types import IdleState, SystemFacts

if TYPE_CHECKING:
    from kboot.facts.basic_types import Gap, Mount
    from kboot.host.types import Host

_THP = "/sys/kernel/mm/transparent_hugepage"
_EDAC = "/sys/devices/system/edac/mc"
_CONNTRACK = "/proc/sys/net/netfilter/nf_conntrack"
_CPUIDLE = "/sys/devices/system/cpu/cpu0/cpuidle"
_MODULES = ("nvidia_peermem", "ib_core", "nvidia_fs")


def collect_system(host: Host, mounts: tuple[Mount, ...]) -> tuple[SystemFacts, tuple[Gap, ...]]:
    """Read settings and counters. Most are absent on some sound machine, so that absence is no Gap.

    mounts: file systems of kboot's folders.
    """
    reader = Reader(host)
    return (
        SystemFacts(
            thp={name: word for name in ("enabled", "defrag") if (word := _chosen(reader, f"{_THP}/{name}"))},
            numa_balancing=_number(reader, "/proc/sys/kernel/numa_balancing"),
            overcommit=_number(reader, "/proc/sys/vm/overcommit_memory"),
            max_map_count=_number(reader, "/proc/sys/vm/max_map_count"),
            edac=_edac(reader),
            pids=_pids(reader),
            stalled_percent=_stalled(reader),
            command_line=_command_line(reader),
            noexec=_noexec(reader, mounts),
            modules=frozenset(name for name in _MODULES if host.exists(f"/sys/module/{name}")),
            conntrack=_pair(_number(reader, f"{_CONNTRACK}_count"), _number(reader, f"{_CONNTRACK}_max")),
            tcp_receive_bytes=_tcp_receive_bytes(reader),
            idle_states=_idle_states(reader),
        ),
        reader.gaps,
    )


def _number(reader: Reader, path: str) -> int | None:
    return whole_number(reader.optional(path) or "")


def _pair(first: int | None, second: int | None) -> tuple[int, int] | None:
    return None if first is None or second is None else (first, second)


def _chosen(reader: Reader, path: str) -> str:
    """Return the word in brackets of "always [madvise] never"."""
    match = re.search(r"\[(\S+)\]", reader.optional(path) or "")
    return match.group(1) if match else ""


def _edac(reader: Reader) -> Mapping[str, int]:
    """Return the sums over all memory controllers."""
    found: dict[str, int] = {}
    for controller in reader.names(_EDAC):
        for name, file in (("corrected", "ce_count"), ("uncorrected", "ue_count")):
            number = _number(reader, f"{_EDAC}/{controller}/{file}")
            if number is not None:
                found[name] = found.get(name, 0) + number
    return found


def _pids(reader: Reader) -> tuple[int, int | None] | None:
    """Return the cgroup on the path that has the fewest pids left; version 2 keeps them beside the memory limits."""
    found = []
    for level in levels(reader, "memory"):
        folder = level.folder.replace("/memory", "/pids", 1) if level.version == 1 else level.folder
        used = _number(reader, f"{folder}/pids.current")
        if used is not None:
            found.append((used, _number(reader, f"{folder}/pids.max")))
    limited = [(used, most) for used, most in found if most is not None]
    if limited:
        return min(limited, key=lambda pair: pair[1] - pair[0])
    return found[0] if found else None


def _stalled(reader: Reader) -> Mapping[str, float]:
    found: dict[str, float] = {}
    for name in ("memory", "io"):
        match = re.search(r"^full .*avg60=(\d+\.\d+)", reader.optional(f"/proc/pressure/{name}") or "", re.MULTILINE)
        if match:
            found[name] = float(match.group(1))
    return found


def _command_line(reader: Reader) -> tuple[str, ...] | None:
    text = reader.optional("/proc/cmdline")
    return None if text is None else tuple(text.split())


def _noexec(reader: Reader, mounts: tuple[Mount, ...]) -> tuple[str, ...] | None:
    """Return the mount points of the state and cache folders that are mounted noexec."""
    text = reader.optional(MOUNTINFO)
    if text is None:
        return None
    ours = {m.mount_point for m in mounts if m.role in ("state", "cache")}
    lines = parse_mountinfo(text)
    return tuple(sorted({m.mount_point for m in lines if m.mount_point in ours and "noexec" in m.options}))


def _tcp_receive_bytes(reader: Reader) -> int | None:
    words = (reader.optional("/proc/sys/net/ipv4/tcp_rmem") or "").split()
    return whole_number(words[2]) if len(words) > 2 else None


def _idle_states(reader: Reader) -> tuple[IdleState, ...]:
    """Return the first CPU's states; the kernel has the same ones for all CPUs of a kind."""
    states = []
    for name in reader.names(_CPUIDLE):
        latency = _number(reader, f"{_CPUIDLE}/{name}/latency")
        if latency is not None:
            word = (reader.optional(f"{_CPUIDLE}/{name}/name") or name).strip()
            states.append(IdleState(word, latency, _number(reader, f"{_CPUIDLE}/{name}/disable") == 1))
    return tuple(states)
