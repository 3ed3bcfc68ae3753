"""Which CPUs are there, which may this process use, and which share a core?"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from kboot.facts.cgroup import allowed_cpus, quota_cpus, throttling
from kboot.facts.reader import Reader, whole_number
from kboot.facts.types import CpuFacts, NumaNode

if TYPE_CHECKING:
    from kboot.facts.basic_types import Gap
    from kboot.host.types import Host

_CPU = "/sys/devices/system/cpu"


def collect_cpu(host: Host, numa: Iterable[NumaNode]) -> tuple[CpuFacts, tuple[Gap, ...]]:
    """Read the CPUs.

    numa: the nodes already read. Their lists hold online CPUs only, and stand in where `cpu/online` is missing.
    """
    reader = Reader(host)
    node_of = {cpu: node.number for node in numa for cpu in node.cpus}
    online = reader.cpu_list("cpu.online", f"{_CPU}/online") or tuple(sorted(node_of))
    facts = CpuFacts(
        model=_model(reader),
        online=online,
        allowed=_allowed(reader, online),
        isolated=_isolated(reader),
        quota_cpus=quota_cpus(reader),
        core_of=_cores(reader, online),
        node_of={cpu: node_of[cpu] for cpu in online if cpu in node_of},
        governor_of=_governors(reader, online),
        offline=_offline(reader, online),
        die_of=_dies(reader, online),
        throttled=throttling(reader),
    )
    return facts, reader.gaps


def _model(reader: Reader) -> str:
    match = re.search(r"^model name\s*:\s*(.+)$", reader.first_cpuinfo(), re.MULTILINE)
    if match is None:
        reader.gap("cpu.model", "/proc/cpuinfo", "no model name (usual on ARM)")
        return ""
    return match.group(1).strip()


def _allowed(reader: Reader, online: tuple[int, ...]) -> tuple[int, ...]:
    allowed = frozenset(online)
    try:
        allowed &= reader.host.affinity()
    except OSError as exc:
        reader.gap("cpu.allowed", "affinity of this process", exc)
    cpusets = allowed_cpus(reader)
    return tuple(sorted(allowed if cpusets is None else allowed & cpusets))


def _isolated(reader: Reader) -> tuple[int, ...]:
    text = reader.optional(f"{_CPU}/isolated")
    return () if not text else reader.parsed_list("cpu.isolated", f"{_CPU}/isolated", text) or ()


def _offline(reader: Reader, online: tuple[int, ...]) -> tuple[int, ...]:
    """Return the CPUs that are in the machine and switched off; those that could be plugged in do not count."""
    return tuple(cpu for cpu in _list(reader, f"{_CPU}/present") if cpu not in online)


def _dies(reader: Reader, online: tuple[int, ...]) -> Mapping[int, int]:
    """Return the lowest online CPU of each CPU's die, reading one list for each die."""
    die_of: dict[int, int] = {}
    for cpu in online:
        if cpu not in die_of:
            members = _list(reader, f"{_CPU}/cpu{cpu}/topology/die_cpus_list")
            if cpu not in members:
                return {}  # kernels before 5.4
            die_of |= dict.fromkeys((member for member in members if member in online), cpu)
    return dict(sorted(die_of.items()))


def _cores(reader: Reader, online: tuple[int, ...]) -> Mapping[int, tuple[int, int]]:
    """Return (package, lowest CPU of the core): the kernel's sibling lists are the only relation sure to be right.

    core_id repeats between dies on some machines, and the product of counts is not the number of CPUs.
    """
    core_of: dict[int, tuple[int, int]] = {}
    package_of: dict[int, int] = {}
    unread: list[int] = []
    for cpu in online:
        if cpu in core_of:
            continue
        folder = f"{_CPU}/cpu{cpu}/topology"
        siblings = _list(reader, f"{folder}/thread_siblings_list")
        if cpu not in siblings:
            unread.append(cpu)
            continue
        if cpu not in package_of:
            package = whole_number(reader.optional(f"{folder}/physical_package_id") or "") or 0
            package_of |= dict.fromkeys((*_list(reader, f"{folder}/core_siblings_list"), cpu), package)
        core = (package_of[cpu], min(siblings))
        core_of |= dict.fromkeys((sibling for sibling in siblings if sibling in online), core)
    if unread:
        source = f"{_CPU}/cpu{unread[0]}/topology/thread_siblings_list"
        reader.gap("cpu.core_of", source, f"not readable for {len(unread)} of {len(online)} CPUs")
    return dict(sorted(core_of.items()))


def _governors(reader: Reader, online: tuple[int, ...]) -> Mapping[int, str]:
    found = {cpu: reader.optional(f"{_CPU}/cpu{cpu}/cpufreq/scaling_governor") for cpu in online}
    return {cpu: governor.strip() for cpu, governor in found.items() if governor}


def _list(reader: Reader, path: str) -> tuple[int, ...]:
    text = reader.optional(path)
    return () if not text else reader.parsed_list("cpu.core_of", path, text) or ()
