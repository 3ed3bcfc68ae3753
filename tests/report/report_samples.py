"""Boots, plans and node facts as literals, for tests of reports."""

from __future__ import annotations

from dataclasses import replace

from kboot.checkpoint import Listing, RemoteFile
from kboot.engines.types import CacheKey, CpuPlacement, Launch, Setting, WorkerShare
from kboot.errors import VerificationFailed
from kboot.facts.types import (
    CacheFacts,
    CpuFacts,
    EngineFacts,
    Gap,
    Gpu,
    GpuFacts,
    LimitFacts,
    MemoryFacts,
    Mount,
    NodeFacts,
    NumaNode,
    OsFacts,
    TuneFacts,
)
from kboot.plan.types import (
    FetchFile,
    Phase,
    Plan,
    PrepareCache,
    PublishCheckpoint,
    StartEngine,
    WarmFile,
    WriteHandoff,
    WriteSetting,
)
from kboot.profile.types import LayoutAsk, ParallelAsk
from kboot.report.types import BootReport, Outcome, Span

T0 = 1_796_020_000.0
COMMIT = "4b1c7e90d2f3a5b6c7d8e9f00112233445566778"
SHARDS = 111
SHARD_BYTES = 14_063_000_000


def shard(number: int) -> str:
    """Return the name of one of the sample's 111 shards."""
    return f"model-{number:05d}-of-{SHARDS:05d}.safetensors"


def _kimi_outcomes(fetch_from: float, fetch_s: float) -> tuple[Outcome, ...]:
    """Eight shards at a time, each an eighth of the rate."""
    each_s = fetch_s / -(-SHARDS // 8)
    return tuple(
        Outcome(
            phase="fetch",
            title=f"fetch {shard(n + 1)}",
            reason="not on this disk",
            status="done",
            start_unix_s=fetch_from + (n // 8) * each_s + 0.03 * (n % 8) * each_s,
            seconds=each_s * (0.93 - 0.01 * (n % 5)),
            size_bytes=SHARD_BYTES,
            source="hub",
        )
        for n in range(SHARDS)
    )


def kimi_boot(fetch_s: float = 946.0, tune_s: float = 12.0, at: float = T0) -> BootReport:
    """A boot of 8x B300 from power-on: 1,561 GB fetched, then vLLM."""
    fetch_from = at + 15.1
    done = fetch_from + fetch_s
    engine, spans = done + 1.3, []
    for name, seconds in (
        ("start processes", 22.0),
        ("join ranks", 11.0),
        ("load weights", 41.0),
        ("profile run", 18.0),
        ("autotune", tune_s),
        ("capture graphs", 33.0),
    ):
        spans.append(Span(name, "engine", engine, engine + seconds))
        engine += seconds
    ready = engine + 2.4
    return BootReport(
        boot_id="7f3a90cc-6f3e-4e55-9a1b-0242ac120002",
        profile="kimi-k3.1-pro",
        commit=COMMIT,
        status="done",
        started_unix_s=at + 14.0,
        finished_unix_s=ready,
        kernel_start_unix_s=at,
        ready_unix_s=ready,
        verify_mode="ledger",
        verify_claim="111 of 111 shards hashed while they were fetched",
        cache_key="sm103-driver580.82-vllm0.33.0",
        spans=(
            Span("kernel", "machine", at, at + 5.2),
            Span("userspace before kboot", "machine", at + 5.2, at + 14.0),
            Span("facts", "kboot", at + 14.0, at + 14.9),
            Span("plan", "kboot", at + 14.9, at + 15.1),
            Span("tune", "kboot", at + 15.1, at + 15.3),
            Span("cache", "kboot", at + 15.1, at + 15.4),
            Span("fetch", "kboot", fetch_from, done, SHARDS * SHARD_BYTES),
            Span("publish", "kboot", done, done + 0.2),
            Span("warm", "kboot", done + 0.2, done + 1.0, 20_000_000_000),
            Span("handoff", "kboot", done + 1.0, done + 1.05),
            Span("serve", "kboot", done + 1.1, ready),
            *spans,
        ),
        outcomes=_kimi_outcomes(fetch_from, fetch_s),
        warnings=("the listing has 111 weight files, the profile says 96",),
        error=None,
    )


def demo_boot(at: float = T0, serve_s: float = 2.4) -> BootReport:
    """A small boot: six seconds in all, nothing of the machine before it."""
    return BootReport(
        boot_id="11112222-3333-4444-5555-666677778888",
        profile="demo",
        commit=COMMIT,
        status="done",
        started_unix_s=at,
        finished_unix_s=at + 3.5 + serve_s,
        kernel_start_unix_s=at - 86_400,
        ready_unix_s=at + 3.5 + serve_s,
        verify_mode="ledger",
        verify_claim="111 of 111 shards hashed while they were fetched",
        cache_key="demo-1",
        spans=(
            Span("facts", "kboot", at, at + 0.4),
            Span("fetch", "kboot", at + 0.5, at + 3.1, 232_000_000),
            Span("warm", "kboot", at + 3.1, at + 3.2, 0, "skipped", "all in memory"),
            Span("serve", "kboot", at + 3.5, at + 3.5 + serve_s),
        ),
        outcomes=(),
        warnings=(),
        error=None,
    )


def failed_boot() -> BootReport:
    """A boot that ended in fetch: one shard's bytes were wrong twice."""
    error = VerificationFailed(
        "shard-hash-mismatch",
        f"{shard(3)}: sha256 is 9c1f04e2…, the listing says 41abd07c…",
        where=("https://mirror.example/models/kimi, attempt 2 of 2",),
        hint="take the mirror out of checkpoint.sources, then `kboot fetch`",
    )
    fetch = Span("fetch", "kboot", T0 + 0.5, T0 + 41.0, 61_000_000_000, "failed")
    outcome = Outcome("fetch", f"fetch {shard(3)}", "not on this disk", "failed", T0 + 1, 39.0, error=error)
    return replace(
        demo_boot(),
        status="failed",
        finished_unix_s=T0 + 41.2,
        ready_unix_s=None,
        verify_claim="",
        spans=(Span("facts", "kboot", T0, T0 + 0.4), fetch),
        outcomes=(outcome,),
        error=error,
    )


LISTING = Listing(
    repo="moonshotai/Kimi-K3.1-Pro",
    revision="main",
    commit=COMMIT,
    files=tuple(RemoteFile(shard(n + 1), SHARD_BYTES, f"{n:064x}", f"{n:064x}") for n in range(SHARDS)),
    skipped=(("original/model.pth", "another format of the same weights"),),
    origin="hub https://huggingface.co",
)

PLACEMENT = CpuPlacement(
    workers=tuple(
        WorkerShare(
            n, n, tuple(range(14 * n, 14 * n + 14)), 14, n // 4, f"NUMA node {n // 4}: 14 CPUs for 1 of 8 workers"
        )
        for n in range(8)
    ),
    housekeeping=(112, 113, 114, 115),
    notes=(),
)

LAUNCH = Launch(
    engine="vllm",
    argv=(
        "/opt/vllm/bin/vllm",
        "serve",
        "/var/lib/kboot/models/kimi-k3.1-pro",
        "--data-parallel-size",
        "8",
        "--enable-expert-parallel",
    ),
    env=(
        Setting("HF_HUB_OFFLINE", "1", "the checkpoint is complete: no request at start"),
        Setting("OMP_NUM_THREADS", "14", "112 usable CPUs / 8 workers"),
    ),
    unset=("HF_TOKEN",),
    flags=(Setting("--data-parallel-size", "8", "one rank a GPU"),),
    health_url="http://127.0.0.1:8000/health",
    models_url="http://127.0.0.1:8000/v1/models",
    completion_url="http://127.0.0.1:8000/v1/completions",
    served_name="moonshotai/Kimi-K3.1-Pro",
    ready_timeout_s=7200,
    worker_titles=("VLLM::Worker",),
)

_FETCH = tuple(FetchFile(f, 0, "not on this disk") for f in LISTING.files[1:])
_RESUME = FetchFile(LISTING.files[0], 9_000_000_000, "9.00 GB of it are here")
_MODEL_PATH = "/var/lib/kboot/models/kimi-k3.1-pro"
_GOVERNOR = "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"

PLAN = Plan(
    profile="kimi-k3.1-pro",
    layout=LayoutAsk(
        name="b300x8", gpu="B300", gpus_per_node=8, engine="vllm", parallel=ParallelAsk(data=8, expert=True)
    ),
    listing=LISTING,
    verify_mode="ledger",
    placement=PLACEMENT,
    cache_key=CacheKey("sm103-driver580.82-vllm0.33.0", {"driver": "580.82"}),
    cache_dir="/var/lib/kboot/cache/sm103-driver580.82-vllm0.33.0",
    model_path=_MODEL_PATH,
    launch=LAUNCH,
    phases=(
        Phase(
            "tune",
            (),
            (WriteSetting(_GOVERNOR, "performance", "powersave", "the profile asks for performance"),),
        ),
        Phase(
            "cache",
            (),
            (PrepareCache(CacheKey("sm103-driver580.82-vllm0.33.0", {}), "/c", "driver was 580.65, is 580.82"),),
        ),
        Phase("fetch", (), (_RESUME, *_FETCH)),
        Phase("verify", ("fetch",), (), "every file is hashed while it is fetched"),
        Phase("publish", ("fetch", "verify"), (PublishCheckpoint(LISTING, _MODEL_PATH, "not published yet"),)),
        Phase("warm", ("publish",), (WarmFile(LISTING.files[0], 1_000_000_000, "not in the page cache"),)),
        Phase("handoff", ("tune", "cache", "publish", "warm"), (WriteHandoff("there is no record"),)),
        Phase("serve", ("handoff",), (StartEngine(LAUNCH, "asked by --serve"),)),
    ),
    warnings=("GPU locality unknown: CPUs are divided evenly and memory is not bound to a node",),
    gaps=(Gap("gpus.3.numa_node", "/sys/bus/pci/devices/0000:3b:00.0/numa_node", "says -1"),),
)

READY_PLAN = replace(PLAN, phases=tuple(Phase(p.name, p.after, (), "nothing to do") for p in PLAN.phases))

GIB = 1 << 30


def node_facts() -> NodeFacts:
    """8x B300 in two NUMA nodes of 60 CPUs; one GPU without a NUMA node, a quota, one gap."""
    gpus = tuple(
        Gpu(
            index=n,
            name="NVIDIA B300 SXM6 AC",
            uuid=f"GPU-{n}",
            bus_id=f"0000:{0x1B + n:02x}:00.0",
            memory_total_bytes=288 * 10**9,
            memory_used_bytes=600 << 20,
            compute_capability=(10, 3),
            numa_node=None if n == 3 else n // 4,
            cpu_affinity=tuple(range(60 * (n // 4), 60 * (n // 4) + 60)),
            mig=False,
            unified=False,
            processes=(),
        )
        for n in range(8)
    )
    cpus = tuple(range(120))
    return NodeFacts(
        collected_unix_s=T0,
        os=OsFacts("node7", "Ubuntu 24.04 LTS", "6.8.0-90", "x86_64", "7f3a90cc-6f3e", T0, "docker", 0),
        cpu=CpuFacts(
            model="Intel(R) Xeon(R) 6960P",
            online=cpus,
            allowed=cpus[:112],
            isolated=(),
            quota_cpus=96.0,
            core_of={c: (c // 60, c) for c in cpus},
            node_of={c: c // 60 for c in cpus},
            governor_of={c: "powersave" if c < 8 else "performance" for c in cpus},
        ),
        numa=tuple(NumaNode(n, cpus[60 * n : 60 * n + 60], 1024 * GIB, 1000 * GIB, {}) for n in (0, 1)),
        memory=MemoryFacts(2048 * GIB, 2000 * GIB, 1900 * GIB, 0, 0, 64 * GIB, 64 * GIB),
        gpu=GpuFacts("ok", "", "580.82.07", "13.0", gpus, (*(g.bus_id for g in gpus), "0000:99:00.0")),
        mounts=(Mount("state", "/var/lib/kboot", "/", "ext4", "/dev/nvme0n1p2", False, 7 * 10**12, 5 * 10**12, 10**8),),
        limits=LimitFacts((1048576, 1048576), (8 << 20, None)),
        engine=EngineFacts("vllm", "0.33.0", "/opt/vllm/bin/python", {}),
        caches=CacheFacts({"sm103": {"driver": "580.82"}}, frozenset()),
        tune=TuneFacts({}),
        gaps=(Gap("gpus.3.numa_node", "/sys/bus/pci/devices/0000:1e:00.0/numa_node", "says -1"),),
    )
