"""A literal node of 8x B300 on two sockets, and what is asked of it."""

from __future__ import annotations

from dataclasses import replace

from kboot.engines.types import CpuPlacement, LaunchAsk, WorkerShare
from kboot.facts.types import (
    CacheFacts,
    CpuFacts,
    EngineFacts,
    Gpu,
    GpuFacts,
    LimitFacts,
    MemoryFacts,
    NodeFacts,
    NumaNode,
    OsFacts,
    TuneFacts,
)
from kboot.profile.types import CheckpointAsk, EngineName, LayoutAsk, ParallelAsk, Profile, ServeAsk

COMMIT = "3f9c1e7a" * 5
SOCKETS = (range(64), range(64, 128))

VERSIONS: dict[EngineName, EngineFacts] = {
    "vllm": EngineFacts(
        "vllm",
        "0.33.0",
        "/opt/engine/bin/python3",
        {"flashinfer-python": "0.7.2.post1", "torch": "2.14.0+cu130", "triton": "3.8.0"},
    ),
    "sglang": EngineFacts("sglang", "0.5.23", "/opt/engine/bin/python3", {"torch": "2.14.0+cu130"}),
    "tokenspeed": EngineFacts("tokenspeed", "0.1.1", "/opt/engine/bin/python3", {"torch": "2.14.0+cu130"}),
    "command": EngineFacts("command", None, None, {}),
    "demo": EngineFacts("demo", "0.1.0", "/opt/kboot/bin/python3", {}),
}


def gpu(index: int, uuid: str = "") -> Gpu:
    """One B300; GPUs 0-3 are on socket 0, 4-7 on socket 1."""
    return Gpu(
        index=index,
        name="NVIDIA B300 SXM6 AC",
        uuid=uuid or f"GPU-{index:08d}-0000-0000-0000-000000000000",
        bus_id=f"0000:{0x18 + 16 * index:02x}:00.0",
        memory_total_bytes=288 * 10**9,
        memory_used_bytes=0,
        compute_capability=(10, 3),
        numa_node=index // 4,
        cpu_affinity=tuple(SOCKETS[index // 4]),
        mig=False,
        unified=False,
        processes=(),
    )


def facts(engine: EngineName, gpus: int = 8) -> NodeFacts:
    """8x B300, 128 cores without SMT, 2 NUMA nodes."""
    node_of = {cpu: number for number, cpus in enumerate(SOCKETS) for cpu in cpus}
    online = tuple(range(128))
    found = tuple(gpu(i) for i in range(gpus))
    return NodeFacts(
        collected_unix_s=0.0,
        os=OsFacts("node0", "Ubuntu 24.04", "6.8.0", "x86_64", "boot-1", 0.0, None, 0),
        cpu=CpuFacts("Xeon 6776P", online, online, (), None, {c: (node_of[c], c) for c in online}, node_of, {}),
        numa=tuple(NumaNode(n, tuple(cpus), 1 << 40, 1 << 40, {}) for n, cpus in enumerate(SOCKETS)),
        memory=MemoryFacts(2 << 40, 2 << 40, None, 0, 0, 1 << 40, 1 << 40),
        gpu=GpuFacts("ok", "", "580.95.05", "13.0", found, tuple(g.bus_id for g in found)),
        mounts=(),
        limits=LimitFacts((1048576, 1048576), (None, None)),
        engine=VERSIONS[engine],
        caches=CacheFacts({}, frozenset()),
        tune=TuneFacts({}),
        programs={"numactl": "/usr/bin/numactl"},
    )


def placement(workers: int = 8, *, numa: bool = True) -> CpuPlacement:
    """16 cores for each worker, those of its GPU's socket."""
    shares = tuple(
        WorkerShare(w, w, tuple(range(16 * w, 16 * w + 16)), 16, w // 4 if numa else None, "16 cores")
        for w in range(workers)
    )
    return CpuPlacement(shares, (), ())


def layout(engine: EngineName, **changes: object) -> LayoutAsk:
    """DP8 with experts spread, on one node."""
    asked = LayoutAsk(
        name="8x-b300",
        gpu="B300",
        gpus_per_node=8,
        engine=engine,
        parallel=ParallelAsk(data=8, expert=True),
        args=("--trust-remote-code", "--max-model-len", "1048576"),
        command=(
            "/opt/serve/run",
            "{model}",
            "--bind={host}:{port}",
            "--name",
            "{served_name}",
            '{"literal": {braces}}',
        )
        if engine == "command"
        else (),
    )
    return replace(asked, **changes)  # type: ignore[arg-type]


def profile(asked: LayoutAsk, **serve: object) -> Profile:
    """The smallest profile around a layout."""
    return Profile(
        name="k3",
        schema=1,
        checkpoint=CheckpointAsk(repo="moonshotai/Kimi-K3"),
        layout=(asked,),
        serve=ServeAsk(**serve),  # type: ignore[arg-type]
    )


def launch_ask(asked: LayoutAsk, share: CpuPlacement | None = None, node_rank: int = 0) -> LaunchAsk:
    """Ask for a launch below fixed folders."""
    return LaunchAsk(
        layout=asked,
        model_path="/var/lib/kboot/models/k3",
        cache_dir="/var/lib/kboot/cache/KEY",
        placement=share or placement(),
        node_rank=node_rank,
        head_address="10.0.0.1" if asked.nodes > 1 else "127.0.0.1",
    )
