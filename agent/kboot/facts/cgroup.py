"""What do the cgroups around this process allow? Both versions; the tightest value on the whole path holds."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from typing import Literal

from kboot.facts.basic_types import Throttling
from kboot.facts.mounts import MOUNTINFO, MountLine, parse_mountinfo
from kboot.facts.reader import Reader, whole_number
from kboot.values import dataclass

_ROOT = "/sys/fs/cgroup"
_NO_LIMIT_BYTES = 1 << 60  # v1 writes the largest page-aligned number for "no limit"

_MEMORY_FILES = {1: ("memory.limit_in_bytes",), 2: ("memory.max", "memory.high")}
_USAGE_FILE = {1: "memory.usage_in_bytes", 2: "memory.current"}
# Of memory.stat, what the kernel takes back before it kills. Version 1 counts children in its totals alone.
_RECLAIMABLE = {
    1: frozenset({"total_active_file", "total_inactive_file"}),
    2: frozenset({"active_file", "inactive_file", "slab_reclaimable"}),
}

Controller = Literal["cpuset", "cpu", "memory"]


@dataclass(frozen=True, slots=True)
class Level:
    """One cgroup folder on the path, innermost first. version: of the hierarchy it is in."""

    version: Literal[1, 2]
    folder: str


def levels(reader: Reader, controller: Controller, pid: int | Literal["self"] = "self") -> tuple[Level, ...]:
    """Return the folders that bind a process for a controller, in every hierarchy that has it."""
    text = reader.optional(f"/proc/{pid}/cgroup")
    mounts = parse_mountinfo(reader.optional(MOUNTINFO) or "")
    found: list[Level] = []
    for line in ("0::/" if text is None else text).splitlines():
        _, controllers, path = [*line.split(":", 2), "", ""][:3]
        if not controllers:
            found += _walk(2, _mount(mounts, "cgroup2", None), _ROOT, path)
        elif controller in controllers.split(","):
            found += _walk(1, _mount(mounts, "cgroup", controller), f"{_ROOT}/{controller}", path)
    return tuple(found)


def allowed_cpus(reader: Reader) -> frozenset[int] | None:
    """Return the CPUs that every cpuset on the path allows; None without a cpuset."""
    allowed: frozenset[int] | None = None
    for level in levels(reader, "cpuset"):
        for name in ("cpuset.cpus.effective", "cpuset.effective_cpus", "cpuset.cpus"):
            text = reader.optional(f"{level.folder}/{name}")
            if not text:
                continue
            cpus = reader.parsed_list("cpu.allowed", f"{level.folder}/{name}", text)
            if cpus:
                allowed = frozenset(cpus) if allowed is None else allowed & frozenset(cpus)
                break
    return allowed


def quota_cpus(reader: Reader) -> float | None:
    """Return the tightest CPU quota on the path, in CPUs; None without one."""
    return min(
        (quota for level in levels(reader, "cpu") if (quota := _quota(reader, level)) is not None),
        default=None,
    )


def throttling(reader: Reader, pid: int | Literal["self"] = "self") -> Throttling | None:
    """Return what the quota that stopped a process's cgroups longest has done; None where no kernel file says."""
    found = [t for level in levels(reader, "cpu", pid) if (t := _throttling(reader, level)) is not None]
    return max(found, key=lambda t: t.throttled_s, default=None)


def memory_limit_bytes(reader: Reader) -> int | None:
    """Return the tightest memory limit on the path; None without one.

    Above memory.high processes are not killed, but stopped until the kernel has won memory back: no more is of use.
    """
    return min((limit for _, limit in _memory_limits(reader)), default=None)


def memory_left_bytes(reader: Reader) -> int | None:
    """Return what the limits leave beside what their cgroups hold and cannot give up; None without a limit.

    A file in memory is held by the cgroup that wrote it until it is deleted, though no process is seen with it.
    """
    return min((max(0, limit - _held_bytes(reader, level)) for level, limit in _memory_limits(reader)), default=None)


def _memory_limits(reader: Reader) -> Iterator[tuple[Level, int]]:
    for level in levels(reader, "memory"):
        for name in _MEMORY_FILES[level.version]:
            limit = whole_number(reader.optional(f"{level.folder}/{name}") or "")
            if limit is not None and 0 <= limit < _NO_LIMIT_BYTES:
                yield level, limit


def _held_bytes(reader: Reader, level: Level) -> int:
    used = whole_number(reader.optional(f"{level.folder}/{_USAGE_FILE[level.version]}") or "") or 0
    lines = (reader.optional(f"{level.folder}/memory.stat") or "").splitlines()
    said = (line.partition(" ") for line in lines)
    given_up = sum(whole_number(value) or 0 for name, _, value in said if name in _RECLAIMABLE[level.version])
    return max(0, used - given_up)


def _quota(reader: Reader, level: Level) -> float | None:
    if level.version == 2:
        words = (reader.optional(f"{level.folder}/cpu.max") or "").split()
        quota, period = [*words, "", ""][:2]
    else:
        quota = reader.optional(f"{level.folder}/cpu.cfs_quota_us") or ""
        period = reader.optional(f"{level.folder}/cpu.cfs_period_us") or ""
    quota_us, period_us = whole_number(quota), whole_number(period)
    return quota_us / period_us if quota_us and period_us and quota_us > 0 else None


def _throttling(reader: Reader, level: Level) -> Throttling | None:
    lines = (reader.optional(f"{level.folder}/cpu.stat") or "").splitlines()
    said = {name: whole_number(value) or 0 for name, _, value in (line.partition(" ") for line in lines)}
    if "nr_periods" not in said:
        return None  # the root has usage alone
    stopped_s = said.get("throttled_usec", 0) / 1e6 + said.get("throttled_time", 0) / 1e9  # version 2, version 1
    return Throttling(level.folder, said["nr_periods"], said.get("nr_throttled", 0), stopped_s)


def _mount(mounts: tuple[MountLine, ...], fs_type: str, controller: str | None) -> MountLine | None:
    for mount in mounts:
        if mount.fs_type == fs_type and (controller is None or controller in mount.super_options):
            return mount
    return None


def _walk(version: Literal[1, 2], mount: MountLine | None, default: str, path: str) -> Iterator[Level]:
    """Yield the folder of a cgroup path and its parents, down to the mount.

    In a container the mount may start at the process's own cgroup (`root`), and the path may be told from a namespace
    that does not see it ("/../…"): what lies outside the mount cannot be read and is left out.
    """
    top = default if mount is None else mount.mount_point
    root = "/" if mount is None else mount.root
    inside = path if path.startswith("/") and "/.." not in path else "/"
    if root != "/" and not root.startswith("/.."):
        inside = inside[len(root) :] if inside == root or inside.startswith(root.rstrip("/") + "/") else "/"
    while inside.strip("/"):
        yield Level(version, top + "/" + inside.strip("/"))
        inside = posixpath.dirname(inside)
    yield Level(version, top)
