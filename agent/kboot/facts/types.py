"""What is found on a node. Frozen values only; reading them is the collectors' work, judging them the planners'."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Literal

from kboot.facts.basic_types import Gap as Gap
from kboot.facts.basic_types import MemoryFacts as MemoryFacts
from kboot.facts.basic_types import Mount as Mount
from kboot.facts.basic_types import OsFacts as OsFacts
from kboot.facts.basic_types import Throttling as Throttling
from kboot.facts.doctor_types import AskedFacts, KeptFacts, MeasuredFacts, UpkeepFacts
from kboot.facts.fleet_types import FleetFacts
from kboot.facts.health_types import HealthFacts
from kboot.facts.link_types import LinkFacts
from kboot.facts.system_types import SystemFacts
from kboot.values import dataclass


@dataclass(frozen=True, slots=True)
class CpuFacts:
    """Logical CPUs by number; every list comes from a list in sysfs, never from a count.

    allowed: online ∩ this process's affinity ∩ every cpuset on the cgroup path.
    quota_cpus: tightest cgroup quota on the path, in CPUs; None without one.
    core_of: (package, core) of each online CPU: equal pairs are SMT siblings.
    node_of: NUMA node of each online CPU. governor_of: empty where the kernel has no cpufreq.
    offline: present, and switched off. die_of: lowest online CPU of the die of each online CPU; empty where not told.
    throttled: of the cgroups around this process; None where no kernel file says.
    """

    model: str
    online: tuple[int, ...]
    allowed: tuple[int, ...]
    isolated: tuple[int, ...]
    quota_cpus: float | None
    core_of: Mapping[int, tuple[int, int]]
    node_of: Mapping[int, int]
    governor_of: Mapping[int, str]
    offline: tuple[int, ...] = ()
    die_of: Mapping[int, int] = field(default_factory=dict)
    throttled: Throttling | None = None


@dataclass(frozen=True, slots=True)
class NumaNode:
    """cpus may be empty (memory-only nodes, as on Grace). distances: by node number.

    memory_files_bytes: page cache that the kernel gives back when memory is wanted; None where it does not say.
    memory_allowed: no cpuset keeps its memory from this process.
    """

    number: int
    cpus: tuple[int, ...]
    memory_total_bytes: int | None
    memory_free_bytes: int | None
    distances: Mapping[int, int]
    memory_files_bytes: int | None = None
    memory_allowed: bool = True


@dataclass(frozen=True, slots=True)
class MigSlice:
    """One MIG instance: profile "2g.20gb"; gpu_instance and compute_instance as in `MIG-GPU-…/gi/ci`."""

    uuid: str
    profile: str
    memory_total_bytes: int | None
    gpu_instance: int | None = None
    compute_instance: int | None = None


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU as NVML answers; None means not readable (a Gap says why).

    bus_id: sysfs form ("0000:3b:00.0"). numa_node: of its PCI device; None when unknown (sysfs -1).
    cpu_affinity: CPUs NVML calls near; may lie outside the allowed ones. unified: shares the host's memory (GB10).
    processes: pids with a compute context. mig_slices: MIG instances; empty without.
    """

    index: int
    name: str
    uuid: str
    bus_id: str
    memory_total_bytes: int | None
    memory_used_bytes: int | None
    compute_capability: tuple[int, int] | None
    numa_node: int | None
    cpu_affinity: tuple[int, ...] | None
    mig: bool
    unified: bool
    processes: tuple[int, ...]
    mig_slices: tuple[MigSlice, ...] = ()


NvmlState = Literal[
    "ok",
    "no-library",  # libnvidia-ml.so.1 is not installed: a node without an NVIDIA driver, or a bake host
    "no-driver",  # the library is there, the kernel module is not loaded
    "mismatch",  # the loaded module and the library are of different versions: reload or reboot
    "hung",  # no answer inside the deadline
    "error",
]


@dataclass(frozen=True, slots=True)
class GpuFacts:
    """NVML's view and sysfs's, kept apart: `pci_bus_ids` are NVIDIA display/3D devices on the PCI bus.

    visible, device_order: CUDA_VISIBLE_DEVICES and CUDA_DEVICE_ORDER of this process; None where not set (see
    facts.visible). cpus_of_pid: CPUs that each process with a compute context may run on; without those whose entry
    in /proc is not ours to see.
    """

    nvml: NvmlState
    detail: str
    driver_version: str | None
    cuda_version: str | None
    gpus: tuple[Gpu, ...]
    pci_bus_ids: tuple[str, ...]
    visible: str | None = None
    device_order: str | None = None
    cpus_of_pid: Mapping[int, tuple[int, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Nic:
    """One network interface on a bus. rate_mbit_s: None while it has no link. numa_node: None when not known."""

    name: str
    state: str
    rate_mbit_s: int | None
    mtu: int | None
    numa_node: int | None
    bus_id: str


@dataclass(frozen=True, slots=True)
class RdmaPort:
    """One port of an RDMA device: InfiniBand, RoCE, EFA. state, phys_state: the kernel's words, "ACTIVE", "LinkUp"."""

    device: str
    port: int
    state: str
    phys_state: str
    rate_gbit_s: float | None
    link_layer: str
    numa_node: int | None
    bus_id: str


@dataclass(frozen=True, slots=True)
class Disk:
    """One block device. members: of a RAID or a mapping; degraded: members a RAID lacks, None for other devices."""

    name: str
    kind: Literal["nvme", "raid", "mapped", "disk"]
    model: str
    size_bytes: int | None
    rotational: bool | None
    read_ahead_bytes: int | None
    numa_node: int | None
    members: tuple[str, ...] = ()
    raid_level: str = ""
    degraded: int | None = None


@dataclass(frozen=True, slots=True)
class LimitFacts:
    """Soft and hard resource limits of this process; None is infinity."""

    nofile: tuple[int | None, int | None]
    memlock_bytes: tuple[int | None, int | None]


@dataclass(frozen=True, slots=True)
class EngineFacts:
    """The installed engine, found without importing it. version None: not installed.

    builds: package → digest of the files it installed, of those that make kernels.
    """

    name: str
    version: str | None
    interpreter: str | None
    packages: Mapping[str, str]
    builds: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TornFile:
    """A file of a kernel cache that is not whole. path: below the key's folder. seen: what its form says."""

    path: str
    size_bytes: int
    seen: str


@dataclass(frozen=True, slots=True)
class TunedFile:
    """A file of tuned kernels. stamps: its `_metadata`, the environment it was tuned in; empty without any."""

    path: str
    stamps: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Baton:
    """A lock that is the file's mere existence (torch's FileBaton).

    holders: pids that have it open. unseen: processes that may have it open and cannot be looked into.
    """

    path: str
    holders: tuple[int, ...]
    unseen: int


@dataclass(frozen=True, slots=True)
class Unwritable:
    """The first entry that the engine's user cannot change. count: how many there are of its kind."""

    path: str
    uid: int
    mode: str
    count: int


@dataclass(frozen=True, slots=True)
class CacheScan:
    """What lies in one key's folder.

    looked_at: files whose content was read, for they changed since the last boot that reached ready.
    p2p: files that say which GPUs reach each other. moved: tables of compiled graphs → the first graph of each that is
    not where the table says. named: folders named by a hash. factor_files: such a folder → what
    the engine wrote of its key (vLLM's cache_key_factors.json), newest first. machine, made_on: marks of this machine
    and of the one that used the folder last; empty where unknown. whole: False where there was too much to see all.
    """

    files: int
    size_bytes: int
    looked_at: int
    torn: tuple[TornFile, ...] = ()
    tuned: tuple[TunedFile, ...] = ()
    batons: tuple[Baton, ...] = ()
    p2p: tuple[str, ...] = ()
    moved: tuple[tuple[str, str], ...] = ()
    named: tuple[str, ...] = ()
    factor_files: tuple[tuple[str, str], ...] = ()
    machine: str = ""
    made_on: str = ""
    unwritable: Unwritable | None = None
    whole: bool = True


@dataclass(frozen=True, slots=True)
class CacheFacts:
    """Kernel-cache folders under the state directory: folder name → its recorded factors; complete ones apart.

    scan: what lies in the folder that this boot will use; None until its key is known.
    bytecode: names of whole folders of compiled Python. warmed: those whose engine's files were read into the page
    cache since the machine's start.
    """

    factors_of: Mapping[str, Mapping[str, str]]
    complete: frozenset[str]
    scan: CacheScan | None = None
    bytecode: frozenset[str] = frozenset()
    warmed: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class TuneFacts:
    """Kernel settings a profile may ask for: path under /sys or /proc → value now. Absent files are left out."""

    value_of: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """All that was found on this node at one time.

    programs: path by name of those that engines call and PATH has. fleet: the other nodes; empty without a fleet.
    """

    collected_unix_s: float
    os: OsFacts
    cpu: CpuFacts
    numa: tuple[NumaNode, ...]
    memory: MemoryFacts
    gpu: GpuFacts
    mounts: tuple[Mount, ...]
    limits: LimitFacts
    engine: EngineFacts
    caches: CacheFacts
    tune: TuneFacts
    gaps: tuple[Gap, ...] = field(default=())
    nics: tuple[Nic, ...] = ()
    rdma: tuple[RdmaPort, ...] = ()
    disks: tuple[Disk, ...] = ()
    programs: Mapping[str, str] = field(default_factory=dict)
    health: HealthFacts = field(default_factory=HealthFacts)
    system: SystemFacts = field(default_factory=SystemFacts)
    measured: MeasuredFacts = field(default_factory=MeasuredFacts)
    links: LinkFacts = field(default_factory=LinkFacts)
    asked: AskedFacts = field(default_factory=AskedFacts)
    fleet: FleetFacts = field(default_factory=FleetFacts)
    upkeep: UpkeepFacts = field(default_factory=UpkeepFacts)
    kept: KeptFacts = field(default_factory=KeptFacts)
