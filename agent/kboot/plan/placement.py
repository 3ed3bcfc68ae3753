"""Which CPUs does each GPU worker get, and how many threads?

Oversubscribing OpenMP threads by two already costs about six times in weight loading on a 224-CPU node (vllm#52330),
and engines count only their own workers; so the share is decided here, once, for all workers of the node.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from kboot.engines.types import CpuPlacement, WorkerShare
from kboot.facts.types import CpuFacts, Gpu, NodeFacts, NumaNode
from kboot.profile.types import CpuAsk, LayoutAsk

Core = tuple[int, ...]
"""The logical CPUs (SMT siblings) of one physical core, in number order."""

_CORES_PER_HOUSEKEEPER = 32
"""One core in 32 is kept for front ends and the agent, on machines of at least 64 usable cores."""


def workers_on_node(layout: LayoutAsk) -> int:
    """Return how many GPU workers one node of the layout runs: the product of its degrees over its nodes."""
    parallel = layout.parallel
    return max(1, parallel.data * parallel.tensor * parallel.pipeline // layout.nodes)


def place(facts: NodeFacts, workers: int, ask: CpuAsk, gpus: Sequence[Gpu] | None = None) -> CpuPlacement:
    """Divide this node's CPUs among its workers; worker i drives gpus[i].

    1. Usable CPUs are the allowed ones that are not isolated from the scheduler.
    2. SMT siblings stay together: what is divided is physical cores.
    3. A worker belongs to the NUMA node of its GPU; a GPU whose node is unknown belongs to none.
    4. Housekeeping cores are taken first, from the node with most to spare.
    5. Each node's cores are divided among its workers, contiguous and even; workers of no node share what is left.
    6. With fewer cores than workers anywhere, everyone keeps all usable CPUs with one thread, and a note says so.
    7. Threads are physical cores, not logical CPUs, and at most the worker's part of a cgroup CPU quota.
    """
    gpus = facts.gpu.gpus[:workers] if gpus is None else gpus[:workers]
    usable = sorted(set(facts.cpu.allowed) - set(facts.cpu.isolated)) or list(facts.cpu.allowed)
    cores = cores_of(facts.cpu, usable)
    notes = list(_notes_on_limits(facts.cpu, usable))
    homes = [_home_node(gpus[w], facts) if w < len(gpus) else None for w in range(workers)]
    if gpus and any(home is None for home in homes):
        notes.append("GPU locality unknown: CPUs are divided evenly and memory is not bound to a node")
    keep, work = _split_housekeeping(cores, facts.cpu.node_of, ask, workers)
    sets = _divide(work, facts.cpu.node_of, homes) if ask.pin else None
    if sets is None:
        notes.append(_why_not_pinned(ask, len(cores), workers))
        sets = [tuple(usable)] * workers
    threads = [_threads(facts.cpu, s, workers, shared=not ask.pin or len(set(sets)) < workers) for s in sets]
    shares = tuple(
        WorkerShare(
            worker=w,
            gpu=gpus[w].index if w < len(gpus) else None,
            cpus=sets[w],
            threads=threads[w],
            memory_node=_memory_node(homes[w], facts.numa) if ask.pin else None,
            reason=_reason(homes[w], sets[w], threads[w], workers, facts.cpu.quota_cpus),
        )
        for w in range(workers)
    )
    taken = {cpu for share in shares for cpu in share.cpus}
    spare = tuple(cpu for cpu in usable if cpu not in taken)
    return CpuPlacement(shares, spare or _flatten(keep), tuple(notes))


def cores_of(cpu: CpuFacts, usable: Iterable[int]) -> tuple[Core, ...]:
    """Group logical CPUs into physical cores, ordered by their first CPU; a CPU with no known core is its own."""
    members: dict[tuple[int, int], list[int]] = {}
    for number in sorted(usable):
        members.setdefault(cpu.core_of.get(number, (-1, number)), []).append(number)
    return tuple(sorted(tuple(cpus) for cpus in members.values()))


def _home_node(gpu: Gpu, facts: NodeFacts) -> int | None:
    """Return the NUMA node with CPUs that is nearest to a GPU; None when nothing says."""
    with_cpus = {node.number: node for node in facts.numa if node.cpus}
    if gpu.numa_node in with_cpus:
        return gpu.numa_node
    by_affinity = _node_of_most(gpu.cpu_affinity or (), with_cpus)
    if by_affinity is not None:
        return by_affinity
    memory_only = next((node for node in facts.numa if node.number == gpu.numa_node), None)
    if memory_only is None or not with_cpus:
        return None
    return min(with_cpus, key=lambda n: (memory_only.distances.get(n, 255), n))


def _node_of_most(cpus: Sequence[int], nodes: Mapping[int, NumaNode]) -> int | None:
    """Return the node that holds most of the CPUs, if they do not merely cover every node."""
    counts = {number: len(set(node.cpus) & set(cpus)) for number, node in nodes.items()}
    hit = [number for number, count in counts.items() if count]
    if not hit or (len(hit) == len(nodes) and len(nodes) > 1):
        return None
    return max(hit, key=lambda number: (counts[number], -number))


def _split_housekeeping(
    cores: Sequence[Core], node_of: Mapping[int, int], ask: CpuAsk, workers: int
) -> tuple[tuple[Core, ...], tuple[Core, ...]]:
    wanted = ask.housekeeping_cpus
    if wanted == 0 or not ask.pin:
        return (), tuple(cores)
    if wanted < 0:
        count = len(cores) // _CORES_PER_HOUSEKEEPER if len(cores) >= 2 * _CORES_PER_HOUSEKEEPER else 0
    else:
        per_core = max(1, len(cores[0])) if cores else 1
        count = -(-wanted // per_core)
    count = min(count, max(0, len(cores) - workers))
    keep: list[Core] = []
    left = list(cores)
    for _ in range(count):
        sizes: dict[int, int] = {}
        for core in left:
            node = node_of.get(core[0], 0)
            sizes[node] = sizes.get(node, 0) + 1
        richest = max(sizes, key=lambda n: (sizes[n], -n))
        chosen = next(core for core in left if node_of.get(core[0], 0) == richest)
        keep.append(chosen)
        left.remove(chosen)
    return tuple(keep), tuple(left)


@dataclass(frozen=True, slots=True)
class _Pool:
    """Cores and the workers that divide them."""

    cores: tuple[Core, ...]
    workers: tuple[int, ...]


def _divide(cores: Sequence[Core], node_of: Mapping[int, int], homes: Sequence[int | None]) -> list[Core] | None:
    """Return one CPU set per worker, disjoint; None when some pool has fewer cores than workers."""
    known = sorted({home for home in homes if home is not None})
    pools = [
        _Pool(
            tuple(core for core in cores if node_of.get(core[0], 0) == node),
            tuple(w for w, home in enumerate(homes) if home == node),
        )
        for node in known
    ]
    homeless = tuple(w for w, home in enumerate(homes) if home is None)
    if homeless:
        rest = tuple(core for core in cores if node_of.get(core[0], 0) not in known)
        pools.append(_Pool(rest, homeless))
    if any(len(pool.cores) < len(pool.workers) for pool in pools):
        pools = [_Pool(tuple(cores), tuple(range(len(homes))))]
        if len(cores) < len(homes):
            return None
    sets: list[Core] = [()] * len(homes)
    for pool in pools:
        size = len(pool.cores) // len(pool.workers)
        for position, worker in enumerate(pool.workers):
            sets[worker] = _flatten(pool.cores[position * size : (position + 1) * size])
    return sets


def _flatten(cores: Iterable[Core]) -> Core:
    return tuple(sorted(cpu for core in cores for cpu in core))


def _threads(cpu: CpuFacts, cpus: Core, workers: int, *, shared: bool) -> int:
    cores = len(cores_of(cpu, cpus))
    if shared:
        cores //= workers
    if cpu.quota_cpus is not None:
        cores = min(cores, int(cpu.quota_cpus // workers))
    return max(1, cores)


def _memory_node(home: int | None, numa: Sequence[NumaNode]) -> int | None:
    """Return the node to take memory from: the worker's, if it has memory and there is more than one to choose from."""
    with_memory = [n.number for n in numa if n.cpus and n.memory_total_bytes != 0]
    return home if home in with_memory and len(with_memory) > 1 else None


def _notes_on_limits(cpu: CpuFacts, usable: Sequence[int]) -> Iterable[str]:
    if len(usable) < len(cpu.online):
        yield f"{len(usable)} of {len(cpu.online)} online CPUs may be used (affinity, cpuset or isolation)"
    if cpu.quota_cpus is not None and cpu.quota_cpus < len(usable):
        yield f"a cgroup quota allows {cpu.quota_cpus:g} CPUs of time on {len(usable)} CPUs"


def _why_not_pinned(ask: CpuAsk, cores: int, workers: int) -> str:
    if not ask.pin:
        return "the profile turns pinning off (cpu.pin = false)"
    return f"{cores} usable cores for {workers} workers: not pinned, one thread each"


def _reason(home: int | None, cpus: Core, threads: int, workers: int, quota: float | None) -> str:
    where = "locality unknown" if home is None else f"NUMA node {home}"
    limit = f", at most {quota:g} CPUs by quota" if quota is not None else ""
    return f"{where}: {len(cpus)} CPUs, {threads} threads for 1 of {workers} workers{limit}"
