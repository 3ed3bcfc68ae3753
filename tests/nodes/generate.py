"""Writes the tree of a machine from a literal description, so that the repository need not hold thousands of files."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

GIB = 1 << 30


@dataclass(frozen=True)
class FakeGpu:
    """bus: as sysfs names it. node: what sysfs says, -1 for "not known". memory_node: NVML's, on Grace.

    pids: processes with a compute context.
    """

    bus: str
    node: int
    cpus: str
    memory_node: int | None = None
    pids: tuple[int, ...] = ()


@dataclass(frozen=True)
class MemoryNode:
    """A NUMA node without CPUs, as each GPU's memory is on Grace. near: the CPU node it belongs to."""

    number: int
    near: int


@dataclass(frozen=True)
class Machine:
    """cores: per socket. nodes: NUMA nodes with CPUs, in all. numbering: which CPU numbers are SMT siblings.

    numbering: "cores-first" (n and n + cores), "adjacent" (2n and 2n + 1), "interleaved" (CPUs dealt to nodes in turn).
    numbers: the nodes' numbers where they have holes. cpuset: what the cgroup and the affinity allow. settings: further
    files, path → text.
    """

    sockets: int
    cores: int
    smt: int
    nodes: int
    numbering: str = "cores-first"
    offline: tuple[int, ...] = ()
    memory_gib: int = 2048
    memory_nodes: tuple[MemoryNode, ...] = ()
    gpu_name: str = ""
    gpu_memory_bytes: int = 0
    gpu_cc: str = ""
    gpus: tuple[FakeGpu, ...] = ()
    cpuset: str | None = None
    quota: str = "max 100000"
    driver: str = "580.159.04"
    cpu_model: str = "Intel(R) Xeon(R) Platinum 8480C"
    arch: str = "x86_64"
    governor: str = ""
    numbers: tuple[int, ...] = ()
    settings: Mapping[str, str] = field(default_factory=dict)

    def core_of(self, cpu: int) -> int:
        """Return the core's number over all sockets."""
        return cpu // self.smt if self.numbering == "adjacent" else cpu % (self.sockets * self.cores)

    def online(self) -> tuple[int, ...]:
        """Return the CPUs that are switched on."""
        return tuple(n for n in range(self.sockets * self.cores * self.smt) if n not in self.offline)

    def package_of(self, cpu: int) -> int:
        """Return the socket of a CPU."""
        place = self.node_place(cpu) if self.numbering == "interleaved" else None
        return self.core_of(cpu) // self.cores if place is None else place * self.sockets // self.nodes

    def node_place(self, cpu: int) -> int:
        """Return which of the nodes a CPU is on: cores are dealt to nodes in blocks, or in turn."""
        core = self.core_of(cpu)
        return (
            core % self.nodes if self.numbering == "interleaved" else core * self.nodes // (self.sockets * self.cores)
        )

    def node_of(self, cpu: int) -> int:
        """Return the number of a CPU's NUMA node."""
        return self.node_numbers[self.node_place(cpu)]

    @property
    def node_numbers(self) -> tuple[int, ...]:
        """Return the numbers of the nodes that have CPUs."""
        return self.numbers or tuple(range(self.nodes))


def write(machine: Machine, root: Path) -> Path:
    """Write the tree below `root` and return it."""
    files: dict[str, str] = {}
    files |= _cpus(machine) | _nodes(machine) | _pci(machine) | _proc(machine) | _cgroup(machine) | machine.settings
    files["nvml.json"] = json.dumps(_nvml(machine), indent=1)
    files["disk_space.json"] = json.dumps(_space(machine), indent=1)
    for path, text in files.items():
        place = root / path.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(f"{text}\n")
    return root


def as_list(numbers: Iterable[int]) -> str:
    """Return numbers the way the kernel lists them (an own writer: the product's is under test)."""
    out: list[list[int]] = []
    for n in sorted(numbers):
        if out and n == out[-1][1] + 1:
            out[-1][1] = n
        else:
            out.append([n, n])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in out)


def _cpus(m: Machine) -> dict[str, str]:
    top = "/sys/devices/system/cpu"
    online = m.online()
    every = m.sockets * m.cores * m.smt
    files = {f"{top}/online": as_list(online), f"{top}/possible": f"0-{every - 1}", f"{top}/present": f"0-{every - 1}"}
    files[f"{top}/isolated"] = ""
    siblings: dict[int, list[int]] = {}
    packages: dict[int, list[int]] = {}
    for cpu in online:
        siblings.setdefault(m.core_of(cpu), []).append(cpu)
        packages.setdefault(m.package_of(cpu), []).append(cpu)
    for cpu in online:
        core, folder = m.core_of(cpu), f"{top}/cpu{cpu}"
        files |= {
            f"{folder}/topology/physical_package_id": str(m.package_of(cpu)),
            f"{folder}/topology/core_id": str(core % m.cores),
            f"{folder}/topology/thread_siblings_list": as_list(siblings[core]),
            f"{folder}/topology/core_siblings_list": as_list(packages[m.package_of(cpu)]),
        }
        if m.governor:
            files[f"{folder}/cpufreq/scaling_governor"] = m.governor
    return files


def _nodes(m: Machine) -> dict[str, str]:
    top = "/sys/devices/system/node"
    near = {node: node for node in m.node_numbers} | {extra.number: extra.near for extra in m.memory_nodes}
    numbers = sorted(near)
    files = {f"{top}/online": as_list(numbers)}
    kib = m.memory_gib * (1 << 20) // m.nodes
    for node in numbers:
        cpus = [cpu for cpu in m.online() if m.node_of(cpu) == node]
        files |= {
            f"{top}/node{node}/cpulist": as_list(cpus),
            f"{top}/node{node}/meminfo": f"Node {node} MemTotal: {kib} kB\nNode {node} MemFree: {kib - 1024} kB",
            f"{top}/node{node}/distance": " ".join(str(_distance(m, near, node, other)) for other in numbers),
        }
    return files


def _distance(m: Machine, near: Mapping[int, int], a: int, b: int) -> int:
    if a == b:
        return 10
    if not {a, b} <= set(m.node_numbers):
        return 80 if near[a] == near[b] else 120
    place_a, place_b = m.node_numbers.index(a), m.node_numbers.index(b)
    return 12 if place_a * m.sockets // m.nodes == place_b * m.sockets // m.nodes else 21


def _pci(m: Machine) -> dict[str, str]:
    files = {
        "/sys/bus/pci/devices/0000:00:00.0/vendor": "0x8086",
        "/sys/bus/pci/devices/0000:00:00.0/class": "0x060000",
        "/sys/bus/pci/devices/0000:00:1e.0/vendor": "0x10de",  # an NVSwitch: NVIDIA's, and no GPU
        "/sys/bus/pci/devices/0000:00:1e.0/class": "0x068000",
    }
    for gpu in m.gpus:
        folder = f"/sys/bus/pci/devices/{gpu.bus}"
        files |= {f"{folder}/vendor": "0x10de", f"{folder}/class": "0x030200", f"{folder}/numa_node": str(gpu.node)}
    return files


def _proc(m: Machine) -> dict[str, str]:
    kib = m.memory_gib * (1 << 20)
    model = f"model name\t: {m.cpu_model}\n" if m.arch == "x86_64" else ""
    files = {
        "/etc/hostname": "node-1",
        "/etc/os-release": 'NAME="Ubuntu"\nPRETTY_NAME="Ubuntu 24.04.3 LTS"',
        "/proc/cpuinfo": f"processor\t: 0\n{model}",
        "/proc/meminfo": f"MemTotal: {kib} kB\nMemFree: {kib // 2} kB\nMemAvailable: {kib // 4 * 3} kB\n"
        "SwapTotal: 0 kB\nSwapFree: 0 kB\nHugetlb: 0 kB",
        "/proc/stat": "cpu  1 2 3\nintr 5\nbtime 1796000000\nprocesses 9",
        "/proc/sys/kernel/osrelease": "6.8.0-88-generic",
        "/proc/sys/kernel/arch": m.arch,
        "/proc/sys/kernel/random/boot_id": "00000000-0000-4000-8000-000000000001",
        "/proc/self/status": f"Uid:\t0\t0\t0\t0\nCpus_allowed_list:\t{m.cpuset or as_list(m.online())}",
        "/proc/self/limits": "Max open files            1048576  1048576  files\n"
        "Max locked memory         unlimited  unlimited  bytes",
        "/proc/self/mountinfo": "22 1 259:2 / / rw,relatime - ext4 /dev/nvme0n1p2 rw\n"
        "30 22 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"
        "31 22 0:27 / /dev/shm rw - tmpfs tmpfs rw",
    }
    if m.gpus:
        files["/proc/driver/nvidia/version"] = (
            f"NVRM version: NVIDIA UNIX Open Kernel Module for {m.arch}  {m.driver}  Release Build\nGCC version: 13"
        )
    return files


def _cgroup(m: Machine) -> dict[str, str]:
    leaf = "/sys/fs/cgroup/system.slice/kboot.service"
    return {
        "/proc/self/cgroup": "0::/system.slice/kboot.service",
        f"{leaf}/cpuset.cpus.effective": m.cpuset or as_list(m.online()),
        f"{leaf}/cpu.max": m.quota,
        f"{leaf}/memory.max": "max",
    }


def _nvml(m: Machine) -> dict[str, object]:
    if not m.gpus:
        return {"nvml_init": "LIBRARY_NOT_FOUND"}
    gpus = [
        {
            "index": index,
            "name": m.gpu_name,
            "uuid": f"GPU-00000000-0000-4000-8000-{index:012d}",
            "bus_id": f"{int(gpu.bus.split(':')[0], 16):08X}:{gpu.bus.partition(':')[2].upper()}",
            "cc": m.gpu_cc,
            "mem_total": m.gpu_memory_bytes,
            "mem_used": 615 << 20,
            "cpu_affinity": gpu.cpus,
            "numa_node_id": {"error": "NOT_SUPPORTED"} if gpu.memory_node is None else gpu.memory_node,
            "procs": [{"pid": pid, "used": 1 << 30} for pid in gpu.pids],
            "mig": False,
        }
        for index, gpu in enumerate(m.gpus)
    ]
    return {"nvml_init": "OK", "driver": m.driver, "library": m.driver, "cuda_version": "13.0", "gpus": gpus}


def _space(m: Machine) -> dict[str, object]:
    shm = m.memory_gib * GIB // 2
    return {
        "/": {"total": 4000 * GIB, "free": 3000 * GIB, "inodes": 200_000_000},
        "/dev/shm": {"total": shm, "free": shm, "inodes": 1_000_000},
    }
