"""How do the facts of a node read on one screen? Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from kboot.checks.words import count
from kboot.cpulist import format_cpu_list
from kboot.facts.basic_types import Mount
from kboot.facts.fleet_types import FleetFacts
from kboot.facts.types import Disk, Gpu, NodeFacts
from kboot.quantities import show_bytes, show_memory
from kboot.report.render_text import Paint, join, no_paint, table, wrap

_MOST_GAPS = 8


def facts_text(facts: NodeFacts, *, verbose: bool = False, paint: Paint = no_paint) -> str:
    """Return what was found; verbose: every GPU, NUMA node and gap by itself."""
    rows = [
        ("system", f"{facts.os.pretty_name}, kernel {facts.os.kernel_release}, {facts.os.machine}"),
        ("boot", f"{facts.os.boot_id}{_container(facts)}"),
        ("CPUs", _cpus(facts)),
        ("NUMA", _numa(facts)),
        ("memory", _memory(facts)),
        *_gpus(facts, verbose),
        *((f"disk: {m.role}", _mount(m)) for m in facts.mounts),
        *_devices(facts, verbose),
        ("limits", _limits(facts)),
        ("engine", f"{facts.engine.name} {facts.engine.version}" if facts.engine.version else "none installed"),
        ("caches", _caches(facts)),
        *_fleet(facts.fleet, verbose),
    ]
    lines = [paint(facts.os.hostname, "strong"), *table(rows)]
    return join([*lines, *_gaps(facts, verbose, paint)])


def _container(facts: NodeFacts) -> str:
    return f", in a container ({facts.os.container})" if facts.os.container else ""


def _cpus(facts: NodeFacts) -> str:
    cpu = facts.cpu
    cores, packages = len(set(cpu.core_of.values())), len({package for package, _ in cpu.core_of.values()})
    parts = [f"{count(len(cpu.online), 'CPU')}, {count(cores, 'core')}, {count(packages, 'package')}"]
    if set(cpu.allowed) != set(cpu.online):
        parts.append(f"allowed {format_cpu_list(cpu.allowed)}")
    if cpu.isolated:
        parts.append(f"isolated {format_cpu_list(cpu.isolated)}")
    if cpu.quota_cpus is not None:
        parts.append(f"quota {cpu.quota_cpus:g} CPUs")
    if cpu.throttled is not None and cpu.throttled.throttled_periods:
        parts.append(f"stopped by the quota for {cpu.throttled.throttled_s:.1f} s so far")
    if cpu.offline:
        parts.append(f"switched off {format_cpu_list(cpu.offline)}")
    governors = Counter(cpu.governor_of.values())
    parts += [f"{name} on {number}" for name, number in sorted(governors.items())]
    return f"{cpu.model}: {'; '.join(parts)}" if cpu.model else "; ".join(parts)


def _numa(facts: NodeFacts) -> str:
    if not facts.numa:
        return "not known"
    return " | ".join(f"node {n.number}: CPUs {format_cpu_list(n.cpus) or 'none'}" for n in facts.numa)


def _memory(facts: NodeFacts) -> str:
    memory = facts.memory
    parts = [f"{show_memory(memory.total_bytes)}, {show_memory(memory.available_bytes)} available"]
    if memory.limit_bytes is not None:
        left = "" if memory.left_bytes is None else f", {show_memory(memory.left_bytes)} of it left"
        parts.append(f"limit {show_memory(memory.limit_bytes)}{left}")
    if memory.hugepages_bytes:
        parts.append(f"huge pages {show_memory(memory.hugepages_bytes)}")
    if memory.shm_total_bytes is not None:
        parts.append(f"/dev/shm {show_memory(memory.shm_total_bytes)}")
    return "; ".join(parts)


def _gpus(facts: NodeFacts, verbose: bool) -> Iterable[tuple[str, str]]:
    gpu = facts.gpu
    if gpu.nvml != "ok":
        yield "GPUs", f"NVML: {gpu.nvml}{f', {gpu.detail}' if gpu.detail else ''}; {_on_pci(len(gpu.pci_bus_ids))}"
        return
    kinds = Counter(g.name for g in gpu.gpus)
    names = ", ".join(f"{number}x {name}" for name, number in sorted(kinds.items())) or "none"
    yield "GPUs", f"{names}; driver {gpu.driver_version or 'unknown'}, CUDA {gpu.cuda_version or 'unknown'}"
    if len(gpu.pci_bus_ids) != len(gpu.gpus):
        yield "", f"NVML lists {len(gpu.gpus)}, {_on_pci(len(gpu.pci_bus_ids))}"
    if verbose:
        yield from ((f"  {g.index}", _gpu(g)) for g in gpu.gpus)


def _on_pci(number: int) -> str:
    return f"{count(number, 'NVIDIA GPU')} on the PCI bus"


def _gpu(gpu: Gpu) -> str:
    total = "memory unknown" if gpu.memory_total_bytes is None else show_memory(gpu.memory_total_bytes)
    used = "" if not gpu.memory_used_bytes else f", {show_memory(gpu.memory_used_bytes)} used"
    near = f", CPUs {format_cpu_list(gpu.cpu_affinity)}" if gpu.cpu_affinity else ""
    return f"{gpu.name}, {total}{used}, {gpu.bus_id}, {_node(gpu.numa_node)}{near}"


def _mount(mount: Mount) -> str:
    free = "free space unknown" if mount.free_bytes is None else f"{show_bytes(mount.free_bytes)} free"
    total = "" if mount.total_bytes is None else f" of {show_bytes(mount.total_bytes)}"
    read_only = ", read-only" if mount.read_only else ""
    return f"{mount.path}: {free}{total}, {mount.fs_type} on {mount.mount_point}{read_only}"


def _devices(facts: NodeFacts, verbose: bool) -> Iterable[tuple[str, str]]:
    up = [n for n in facts.nics if n.state == "up"]
    if facts.nics or facts.rdma:
        active = sum(p.state == "ACTIVE" for p in facts.rdma)
        rdma = f"; {active} of {count(len(facts.rdma), 'RDMA port')} active" if facts.rdma else ""
        yield "network", f"{len(up)} of {count(len(facts.nics), 'interface')} up{rdma}"
    if facts.disks:
        kinds = Counter(d.kind for d in facts.disks)
        yield "disks", ", ".join(f"{number} {kind}" for kind, number in sorted(kinds.items()))
    if verbose:
        yield from ((f"  {n.name}", f"{n.state}, {_node(n.numa_node)}") for n in facts.nics)
        yield from ((f"  {p.device}/{p.port}", f"{p.state}, {_node(p.numa_node)}") for p in facts.rdma)
        yield from ((f"  {d.name}", _disk(d)) for d in facts.disks)
        yield "programs", ", ".join(facts.programs.values()) or "none of those that engines call"


def _node(number: int | None) -> str:
    return "NUMA node unknown" if number is None else f"NUMA node {number}"


def _disk(disk: Disk) -> str:
    size = "size unknown" if disk.size_bytes is None else show_bytes(disk.size_bytes)
    raid = f", {disk.raid_level} of {', '.join(disk.members)}" if disk.kind == "raid" else ""
    degraded = f", {count(disk.degraded, 'member')} missing" if disk.degraded else ""
    return f"{size}{raid}{degraded}, {_node(disk.numa_node)}"


def _limits(facts: NodeFacts) -> str:
    files, locked = facts.limits.nofile[0], facts.limits.memlock_bytes[0]
    return f"open files {_limit(files)}, locked memory {'unlimited' if locked is None else show_memory(locked)}"


def _limit(value: int | None) -> str:
    return "unlimited" if value is None else f"{value:,}"


def _caches(facts: NodeFacts) -> str:
    known = len(facts.caches.factors_of)
    return f"{count(known, 'kernel cache')}, {len(facts.caches.complete)} complete" if known else "no kernel cache yet"


def _fleet(fleet: FleetFacts, verbose: bool) -> Iterable[tuple[str, str]]:
    if not fleet.found_by:
        return
    place = "this is none of them" if fleet.me is None else f"this is rank {fleet.me} ({fleet.nodes[fleet.me].name})"
    yield "fleet", f"{count(len(fleet.nodes), 'node')} of {fleet.found_by}; {place}" if fleet.nodes else "not known"
    if verbose:
        yield from ((f"  {rank}", f"{n.name}, {n.host} port {n.port}") for rank, n in enumerate(fleet.nodes))


def _gaps(facts: NodeFacts, verbose: bool, paint: Paint) -> list[str]:
    if not facts.gaps:
        return []
    shown = facts.gaps if verbose else facts.gaps[:_MOST_GAPS]
    lines = ["", paint("not readable", "warn")]
    for gap in shown:
        lines += wrap(f"{gap.fact}: {gap.reason} ({gap.source})", "  - ")
    if len(shown) < len(facts.gaps):
        lines.append(f"  and {len(facts.gaps) - len(shown)} more; `-v` shows them")
    return lines
