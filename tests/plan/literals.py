"""Small machines and checkpoints as literals, for tests of planners."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from kboot.checkpoint import CheckpointFacts, FileState, Listing, LocalFile, RemoteFile
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
from kboot.profile.types import CheckpointAsk, LayoutAsk, ParallelAsk, Profile

GIB = 1 << 30


def cpu_facts(nodes: Sequence[Sequence[int]], smt: bool = False, **changes: object) -> CpuFacts:
    """CPUs by NUMA node; with smt, CPU i of a node's first half and i of its second half are siblings."""
    core_of, node_of = {}, {}
    for number, cpus in enumerate(nodes):
        half = len(cpus) // 2 if smt else len(cpus)
        for position, cpu in enumerate(cpus):
            node_of[cpu] = number
            core_of[cpu] = (number, position % half)
    online = tuple(sorted(node_of))
    facts = CpuFacts("literal", online, online, (), None, core_of, node_of, {})
    return replace(facts, **changes)  # type: ignore[arg-type]


def gpu(index: int, numa_node: int | None, affinity: Sequence[int] | None = None) -> Gpu:
    """One H100 with 80 GB."""
    return Gpu(
        index=index,
        name="NVIDIA H100 80GB HBM3",
        uuid=f"GPU-{index}",
        bus_id=f"0000:{index + 1:02x}:00.0",
        memory_total_bytes=80 * 10**9,
        memory_used_bytes=0,
        compute_capability=(9, 0),
        numa_node=numa_node,
        cpu_affinity=None if affinity is None else tuple(affinity),
        mig=False,
        unified=False,
        processes=(),
    )


def node(cpu: CpuFacts, gpus: Sequence[Gpu] = (), numa: Sequence[NumaNode] | None = None) -> NodeFacts:
    """A node with plenty of everything else."""
    if numa is None:
        numbers = sorted(set(cpu.node_of.values()))
        numa = [
            NumaNode(n, tuple(c for c in cpu.online if cpu.node_of[c] == n), 512 * GIB, 500 * GIB, {}) for n in numbers
        ]
    return NodeFacts(
        collected_unix_s=0.0,
        os=OsFacts("node0", "Debian GNU/Linux 12", "6.1.0", "x86_64", "boot-1", 0.0, None, 0),
        cpu=cpu,
        numa=tuple(numa),
        memory=MemoryFacts(1024 * GIB, 1000 * GIB, None, 0, 0, 64 * GIB, 64 * GIB),
        gpu=GpuFacts("ok" if gpus else "no-library", "", "580.1", "13.0", tuple(gpus), tuple(g.bus_id for g in gpus)),
        mounts=(),
        limits=LimitFacts((1048576, 1048576), (None, None)),
        engine=EngineFacts("demo", "0.1.0", "/usr/bin/python3", {}),
        caches=CacheFacts({}, frozenset()),
        tune=TuneFacts({}),
    )


def hgx_h100() -> NodeFacts:
    """Two sockets of 56 cores with SMT, four GPUs on each."""
    nodes = ([*range(56), *range(112, 168)], [*range(56, 112), *range(168, 224)])
    return node(cpu_facts(nodes, smt=True), [gpu(i, i // 4) for i in range(8)])


def remote(path: str, size_bytes: int = 100) -> RemoteFile:
    """A file of the listing whose hash is its name's."""
    return RemoteFile(path, size_bytes, blob_id=f"{abs(hash(path)):064x}"[:64], sha256="0" * 64)


def checkpoint(
    *files: tuple[str, FileState, int], resident: bool = True, published: bool = True, size_bytes: int = 100
) -> CheckpointFacts:
    """A checkpoint of (path, state, bytes on disk)."""
    local = tuple(
        LocalFile(remote(path, size_bytes), state, have, 1.0 if state == "verified" else None, have if resident else 0)
        for path, state, have in files
    )
    listing = Listing("org/m", "main", "c" * 40, tuple(f.file for f in local), (), "literal")
    return CheckpointFacts(listing, local, "/state/hub/snapshots/c", published)


def profile(**changes: object) -> Profile:
    """The smallest valid profile, two data-parallel workers."""
    layout = LayoutAsk(
        name="two", gpu="none", gpus_per_node=0, engine="demo", parallel=ParallelAsk(data=2, expert=True)
    )
    asked = Profile(name="p", schema=1, checkpoint=CheckpointAsk(repo="org/m"), layout=(layout,), digest="d")
    return replace(asked, **changes)  # type: ignore[arg-type]
