"""Which system runs here, since when, and inside what?"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from kboot.facts.basic_types import Gap, OsFacts
from kboot.facts.mounts import MOUNTINFO, parse_mountinfo
from kboot.facts.reader import Reader

if TYPE_CHECKING:
    from kboot.host.types import Host

_CONTAINER_FILES = (("/.dockerenv", "docker"), ("/run/.containerenv", "podman"))
_CONTAINER_NAMES = ("/run/systemd/container", "/run/host/container-manager")
_CGROUP_WORDS = (
    ("kubepods", "kubernetes"),
    ("docker", "docker"),
    ("libpod", "podman"),
    ("containerd", "containerd"),
    ("/lxc", "lxc"),
)
# Where a container's own files of the network come from; it may see no cgroup but its own, whose path is "/" then.
_BOUND = ("/etc/hosts", "/etc/hostname", "/etc/resolv.conf")
_BOUND_WORDS = (
    ("kubelet/pods/", "kubernetes"),
    ("docker/containers/", "docker"),
    ("io.containerd", "containerd"),
    ("containers/storage/", "podman"),
)
_JOBS = re.compile(r"slurmstepd\.scope/|/slurm(?:_[^/\n]+)?/uid_")


def collect_os(host: Host) -> tuple[OsFacts, tuple[Gap, ...]]:
    """Read the operating system's names, the boot, and whether this is a container."""
    reader = Reader(host)
    facts = OsFacts(
        hostname=_hostname(reader),
        pretty_name=_pretty_name(reader),
        kernel_release=reader.text("os.kernel_release", "/proc/sys/kernel/osrelease") or "",
        machine=_machine(reader),
        boot_id=(reader.text("os.boot_id", "/proc/sys/kernel/random/boot_id") or "").strip(),
        boot_unix_s=_boot_unix_s(reader),
        container=_container(reader),
        slurm_job=_in_job(reader),
        uid=host.uid(),
    )
    return facts, reader.gaps


def _hostname(reader: Reader) -> str:
    try:
        return reader.host.hostname()
    except OSError as exc:
        reader.gap("os.hostname", "/etc/hostname", exc)
        return ""


def _pretty_name(reader: Reader) -> str:
    text = reader.optional("/etc/os-release") or reader.text("os.pretty_name", "/usr/lib/os-release") or ""
    match = re.search(r"^PRETTY_NAME=(['\"]?)(.*)\1\s*$", text, re.MULTILINE)
    return match.group(2) if match else ""


def _machine(reader: Reader) -> str:
    """Return "x86_64" or "aarch64"; before Linux 6.1 only the form of cpuinfo tells."""
    told = reader.optional("/proc/sys/kernel/arch")
    if told:
        return told.strip()
    cpuinfo = reader.first_cpuinfo()
    if re.search(r"^vendor_id\s*:\s*(GenuineIntel|AuthenticAMD)", cpuinfo, re.MULTILINE):
        return "x86_64"
    if re.search(r"^CPU architecture\s*:\s*8", cpuinfo, re.MULTILINE):
        return "aarch64"
    reader.gap("os.machine", "/proc/sys/kernel/arch", "not in it, and /proc/cpuinfo is of no known form")
    return ""


def _boot_unix_s(reader: Reader) -> float | None:
    text = reader.text("os.boot_unix_s", "/proc/stat")
    if text is None:
        return None
    match = re.search(r"^btime (\d+)$", text, re.MULTILINE)
    if match is None:
        reader.gap("os.boot_unix_s", "/proc/stat", "no btime line")
        return None
    return float(match.group(1))


def _container(reader: Reader) -> str | None:
    """Return the container manager's name, or "unnamed" where only a container is certain."""
    for path in _CONTAINER_NAMES:
        if name := reader.optional(path):
            return name.strip()
    environ = reader.optional("/proc/1/environ") or ""  # readable for root only
    if match := re.search(r"(?:^|\0)container=([^\0]*)", environ):
        return match.group(1) or "unnamed"
    cgroups = "\n".join(reader.optional(f"/proc/{pid}/cgroup") or "" for pid in ("self", "1"))
    for word, name in _CGROUP_WORDS:
        if word in cgroups:
            return name
    for path, name in _CONTAINER_FILES:
        if reader.host.exists(path):
            return name
    mounts = parse_mountinfo(reader.optional(MOUNTINFO) or "")
    roots = " ".join(mount.root for mount in mounts if mount.mount_point in _BOUND)
    return next((name for word, name in _BOUND_WORDS if word in roots), None)


def _in_job(reader: Reader) -> bool:
    """Return whether the cgroup of a Slurm job is around this process; its name is a number or, from 26.05, another."""
    return _JOBS.search(reader.optional("/proc/self/cgroup") or "") is not None
