"""A node on which nothing is wrong, its profile and its checkpoint, and one on which nothing could be read."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from kboot.answers import RateLimit, SourceAnswer
from kboot.checkpoint import CheckpointFacts, Listing, LocalFile, RemoteFile
from kboot.engines import engine
from kboot.facts.asked_types import AllReduce, DiagTest, LiveWorker, WeightShare
from kboot.facts.doctor_types import AskedFacts, KeptFacts, MeasuredFacts, UpkeepFacts
from kboot.facts.fleet_types import FleetFacts, FleetNode, NodeStatement
from kboot.facts.health_types import Fabric, FabricManager, GpuHealth, HealthFacts, PciHealth, RemappedRows
from kboot.facts.kept_types import (
    IndexFacts,
    PastBoot,
    ReclaimFacts,
    SelfFacts,
    SmallFile,
    TermsFacts,
)
from kboot.facts.link_types import Bridge, CudaDevice, CudaFacts, Imex, LinkFacts
from kboot.facts.measured_types import FirstReads, ReadSample, RotSample
from kboot.facts.system_types import IdleState, SystemFacts
from kboot.facts.types import (
    CacheFacts,
    CpuFacts,
    Disk,
    EngineFacts,
    Gap,
    Gpu,
    GpuFacts,
    LimitFacts,
    MemoryFacts,
    Mount,
    Nic,
    NodeFacts,
    NumaNode,
    OsFacts,
    RdmaPort,
    TuneFacts,
)
from kboot.facts.upkeep_types import CdiSpec, Discard, DiskHealth, PortState, Services, UnitState
from kboot.host.kernel_clock import KernelClock
from kboot.profile.types import (
    CheckpointAsk,
    LayoutAsk,
    LicenseAsk,
    LicenseCondition,
    OperatorAsk,
    ParallelAsk,
    Profile,
)

GIB = 1 << 30
NOW_S = 1_800_000_000.0

GPUS = tuple(
    Gpu(
        index=i,
        name="NVIDIA H200",
        uuid=f"GPU-{i}",
        bus_id=f"0000:{i + 1:02x}:00.0",
        memory_total_bytes=141 * GIB,
        memory_used_bytes=GIB,
        compute_capability=(9, 0),
        numa_node=i // 4,
        cpu_affinity=tuple(range(32)) if i < 4 else tuple(range(32, 64)),
        mig=False,
        unified=False,
        processes=(),
    )
    for i in range(8)
)
HEALTH = tuple(
    GpuHealth(
        index=i,
        persistence=True,
        ecc=True,
        ecc_pending=True,
        ecc_uncorrected=(0, 0),
        sram_threshold=False,
        remapped=RemappedRows(0, 0, pending=False, failure=False),
        fabric=Fabric("completed", "SUCCESS", 0, "00000000-0000-0000-0000-000000000000"),
        nvlinks=(True,) * 18,
        slowdown=("sw-power-cap",),
        power_w=(700.0, 700.0),
        temperature_c=34,
        memory_temperature_c=40,
        slowdown_c=87,
        compute_mode="default",
        recovery_action="none",
        bar1_bytes=256 * GIB,
        vbios="96.00.A5.00.03",
        virtualization="none",
    )
    for i in range(8)
)
PATHS = {
    **{g.bus_id: (f"0000:{g.index:02x}:01.0", f"0000:{g.index:02x}:02.0", f"0000:{g.index:02x}:03.0") for g in GPUS},
    **{
        f"0000:{n + 0x40:02x}:00.0": (f"0000:{n:02x}:01.0", f"0000:{n:02x}:02.0", f"0000:{n:02x}:04.0")
        for n in range(8)
    },
}
"""One switch for each GPU and its network card."""
BOOTS = tuple(
    PastBoot(
        boot_id=f"b00t-{n}",
        profile="model",
        started_unix_s=NOW_S - 86400 * (n + 1),
        status="done",
        ready_s=300.0 + n,
        seconds={"kboot: fetch": 0.5, "engine: load model": 120.0 + n},
        changed={"commit": "c0ffee", "cache key": "h200-580"},
    )
    for n in range(8)
)
UPKEEP = UpkeepFacts(
    smart_tool="smartctl",
    disks=(DiskHealth("nvme0n1", passed=True, media_errors=0, used_percent=3, spare_percent=100),),
    discard=Discard(supported=True, mounted=False, timer=True),
    clock=KernelClock(synchronised=True, error_s=0.004),
    services=Services((), (UnitState("kboot.service", "active", "success", 0),)),
    secure_boot=False,
    lockdown="none",
    nvidia_module=True,
    cdi=(CdiSpec("/etc/cdi/nvidia.yaml", "580.95.05"),),
    blocked=(),
    environ=(),
    env_files=(),
    port=PortState(8000, listened=False),
    readable=(),
    identity=(),
)
KEPT = KeptFacts(
    index=IndexFacts(
        "model.safetensors.index.json", tuple(f"model-{n:05d}-of-00096.safetensors" for n in range(1, 97))
    ),
    small=(SmallFile("config.json", "right"), SmallFile("tokenizer.json", "right")),
    locks=(),
    terms=TermsFacts(True, "accepted", "accepted by ops"),
    boots=BOOTS,
    newest_unix_s=NOW_S - 86400,
    itself=SelfFacts("1.0.0", "1.0.0"),
    reclaim=ReclaimFacts(("aws",)),
)
NODE = NodeFacts(
    collected_unix_s=NOW_S,
    os=OsFacts("node7", "Debian GNU/Linux 13", "6.12.0", "x86_64", "b00t", NOW_S - 60, None, 0),
    cpu=CpuFacts(
        model="CPU",
        online=tuple(range(64)),
        allowed=tuple(range(64)),
        isolated=(),
        quota_cpus=None,
        core_of={n: (n // 32, n % 32) for n in range(64)},
        node_of={n: n // 32 for n in range(64)},
        governor_of=dict.fromkeys(range(64), "performance"),
    ),
    numa=(
        NumaNode(0, tuple(range(32)), 1024 * GIB, 1000 * GIB, {0: 10, 1: 21}),
        NumaNode(1, tuple(range(32, 64)), 1024 * GIB, 1000 * GIB, {0: 21, 1: 10}),
    ),
    memory=MemoryFacts(2048 * GIB, 2000 * GIB, None, 0, 0, 1024 * GIB, 1024 * GIB),
    gpu=GpuFacts("ok", "", "580.95.05", "13.0", GPUS, tuple(g.bus_id for g in GPUS)),
    mounts=(
        Mount("state", "/var/lib/kboot", "/", "ext4", "/dev/nvme0n1p1", False, 4 << 40, 3 << 40, 10**8),
        Mount("cache", "/var/lib/kboot/cache", "/", "ext4", "/dev/nvme0n1p1", False, 4 << 40, 3 << 40, 10**8),
        Mount("runtime", "/run/kboot", "/run", "tmpfs", "tmpfs", False, 4 << 30, 3 << 30, 10**6),
    ),
    limits=LimitFacts((1048576, 1048576), (None, None)),
    engine=EngineFacts("vllm", "0.33.0", "/opt/venv/bin/python3", {"vllm": "0.33.0", "torch": "2.11.0+cu130"}),
    caches=CacheFacts({"h200-580": {"gpu": "sm90"}}, frozenset({"h200-580"})),
    tune=TuneFacts({}),
    health=HealthFacts(
        gpus=HEALTH,
        pci=tuple(
            PciHealth(g.bus_id, (16, 16), (2.5, 32.0), {"fatal": 0, "nonfatal": 0, "correctable": 3}, "identity")
            for g in GPUS
        ),
        kernel_events=(),
        device_nodes=("nvidia-uvm", *(f"nvidia{i}" for i in range(8)), "nvidiactl"),
        open_module=True,
        fabric_manager=FabricManager(4, running=True, versions=None),
        nvml_seconds=0.2,
    ),
    system=SystemFacts(
        thp={"enabled": "madvise", "defrag": "madvise"},
        numa_balancing=0,
        overcommit=0,
        max_map_count=1048576,
        edac={"corrected": 0, "uncorrected": 0},
        pids=(1200, None),
        stalled_percent={"memory": 0.0, "io": 0.0},
        command_line=("BOOT_IMAGE=/vmlinuz", "ro"),
        noexec=(),
        modules=frozenset({"nvidia_peermem"}),
        conntrack=(900, 262144),
        tcp_receive_bytes=6291456,
        idle_states=(IdleState("POLL", 0, disabled=False), IdleState("C6", 290, disabled=False)),
    ),
    links=LinkFacts(
        path_of=PATHS,
        bridges=tuple(Bridge(path[2], ()) for path in PATHS.values()),
        imex=Imex(running=True, nodes=2, channels=("channel0",)),
        confidential="off",
    ),
    asked=AskedFacts(
        cuda=CudaFacts(
            "ok",
            devices=tuple(
                CudaDevice(g.bus_id, "", {o.bus_id: True for o in GPUS if o is not g}, 55.4e9 + g.index * 1e7)
                for g in GPUS
            ),
        ),
        memory_policy="",
        workers=tuple(LiveWorker(n, 4000 + n, 7, 212, 0) for n in range(8)),
        trust="",
        sources=(
            SourceAnswer("hub https://huggingface.co", size_bytes=1 << 20, seconds=0.31, families=(("IPv4", True),)),
        ),
        rate_limit=RateLimit("hub https://huggingface.co", 498, 500, 120),
        diagnostics=(DiagTest("software", "Pass"), DiagTest("memory", "Skip")),
        allreduce=AllReduce(8, 2 << 30, 478.2, 0),
        weights=WeightShare("8x-h200", "DP8+EP", 98 * GIB, 97 * GIB, 5 * GIB, 35 * GIB, serves=True),
    ),
    measured=MeasuredFacts(
        disk=ReadSample(30 * 10**9, 3.0, 8),
        mapped=ReadSample(64 << 20, 0.03, 1),
        hashing=ReadSample(40 * 10**9, 1.0, 32),
        first_reads=FirstReads(24, 0.0002, 0.0002),
        rot=RotSample(96, 96 * (16 << 20)),
        folder=(),
    ),
    nics=(Nic("eth0", "up", 100000, 9000, 0, "0000:81:00.0"),),
    rdma=tuple(
        RdmaPort(f"mlx5_{n}", 1, "ACTIVE", "LinkUp", 400.0, "InfiniBand", n // 4, f"0000:{n + 0x40:02x}:00.0")
        for n in range(8)
    ),
    disks=(
        Disk("md0", "raid", "", 30 << 40, False, 4 << 20, None, ("nvme0n1", "nvme1n1"), "raid0", 0),
        Disk("nvme0n1", "nvme", "SSD", 15 << 40, False, 128 << 10, 0),
    ),
    fleet=FleetFacts(
        me=0,
        nodes=(FleetNode("node7", "node7", 7417), FleetNode("node8", "node8", 7417)),
        found_by="fleet.peers",
        statements=tuple(NodeStatement(n, {"driver": "580.95.05"}, 140 * GIB) for n in ("node7", "node8")),
        stated_unix_s=NOW_S - 300,
    ),
    programs={"gcc": "/usr/bin/gcc", "ninja": "/usr/bin/ninja", "nvcc": "/usr/local/cuda/bin/nvcc"},
    upkeep=UPKEEP,
    kept=KEPT,
)
PROFILE = Profile(
    name="model",
    schema=1,
    checkpoint=CheckpointAsk(repo="org/model", revision="main"),
    layout=(LayoutAsk(name="8x-h200", gpu="H200", gpus_per_node=8, parallel=ParallelAsk(data=8, expert=True)),),
    license=LicenseAsk(
        name="Model License",
        condition=(LicenseCondition(needs="an agreement", uses=("sells-access",), monthly_users_above=100),),
    ),
    declared=OperatorAsk(use="internal"),
)
CPU_PROFILE = replace(PROFILE, layout=(LayoutAsk(name="cpu", gpu="none", gpus_per_node=0, engine="demo"),))
SHARDS = tuple(
    RemoteFile(f"model-{n:05d}-of-00096.safetensors", 8 * 10**9, f"{n:064x}", f"{n:064x}") for n in range(1, 97)
)
LISTING = Listing("org/model", "main", "c0ffee" + "0" * 34, SHARDS, (), "listing on this disk")
KEY = engine("vllm").cache_key(NODE, PROFILE, PROFILE.layout[0], LISTING.commit)
NODE = replace(NODE, caches=CacheFacts({KEY.name: KEY.factors}, frozenset({KEY.name})))
CHECKPOINT = CheckpointFacts(
    listing=LISTING,
    files=tuple(LocalFile(f, "verified", f.size_bytes, verified_unix_s=NOW_S - 3600) for f in SHARDS),
    snapshot_path="/var/lib/kboot/hub/models--org--model/snapshots/c0ffee",
    published=True,
)
BLIND = NodeFacts(
    collected_unix_s=NOW_S,
    os=OsFacts("", "", "", "", "", None, None, 1000),
    cpu=CpuFacts("", (), (), (), None, {}, {}, {}),
    numa=(),
    memory=MemoryFacts(0, 0, None, 0, 0, None, None),
    gpu=GpuFacts("error", "NVML could not be asked: Permission denied", None, None, (), ()),
    mounts=(),
    limits=LimitFacts((0, 0), (0, 0)),
    engine=EngineFacts("", None, None, {}),
    caches=CacheFacts({}, frozenset()),
    tune=TuneFacts({}),
    gaps=tuple(
        Gap(fact, "/proc", "Permission denied")
        for fact in ("memory", "memory.shm", "mounts", "limits", "cpu", "numa", "gpu", "engine", "ledger")
    ),
)


def node(**changes: Any) -> NodeFacts:
    """Return the good node with fields of its parts changed: node(memory={"swap_used_bytes": GIB})."""
    parts: dict[str, Any] = {
        name: replace(getattr(NODE, name), **change) if isinstance(change, dict) else change
        for name, change in changes.items()
    }
    return replace(NODE, **parts)


def gpus(number: int = 8, **changes: Any) -> tuple[Gpu, ...]:
    """Return the first GPUs of the good node, each changed the same way."""
    return tuple(replace(gpu, **changes) for gpu in GPUS[:number])


def files(state: Any, number: int = 3, **changes: Any) -> CheckpointFacts:
    """Return the checkpoint with its first files in another state."""
    other = tuple(LocalFile(f, state, 0, **changes) for f in SHARDS[:number])
    return replace(CHECKPOINT, files=(*other, *CHECKPOINT.files[number:]))


def sick(number: int = 1, **changes: Any) -> NodeFacts:
    """Return the good node with the health of its last GPUs changed the same way."""
    health = (*HEALTH[:-number], *(replace(each, **changes) for each in HEALTH[-number:]))
    return node(health={"gpus": health})


def cuda(**changes: Any) -> NodeFacts:
    """Return the good node with what CUDA says changed."""
    assert NODE.asked.cuda is not None
    return node(asked={"cuda": replace(NODE.asked.cuda, **changes)})


def device(number: int, **changes: Any) -> tuple[CudaDevice, ...]:
    """Return the good node's CUDA devices with one changed."""
    assert NODE.asked.cuda is not None
    devices = NODE.asked.cuda.devices
    return (*devices[:number], replace(devices[number], **changes), *devices[number + 1 :])


def on_bus(**changes: Any) -> NodeFacts:
    """Return the good node with the PCI device of its first GPU changed."""
    first, *rest = NODE.health.pci
    return node(health={"pci": (replace(first, **changes), *rest)})
