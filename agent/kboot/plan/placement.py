"""Which CPUs does each GPU worker get, and how many threads?

Oversubscribing OpenMP threads by two already costs about six times in weight loading on a 224-CPU node (vllm#52330),
and engines count only their own workers; so the share is decided here, once, for all workers of the node.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from kboot.cpulist import format_cpu_list
from kboot.engines.types import CpuPlacement, WorkerShare
from kboot.facts.visible import usable_gpus
from kboot.plan.cores import Core, cores_of, divide, flatten, priority_cpus, split_housekeeping
from kboot.plan.neighbours import Neighbours, neighbours
from kboot.values import dataclass

if TYPE_CHECKING:
    from kboot.facts.types import CpuFacts, Gpu, NodeFacts, NumaNode
    from kboot.profile.types import CpuAsk, LayoutAsk


def workers_on_node(layout: LayoutAsk) -> int:
    """Return how many GPU workers one node of the layout runs: the product of its degrees over its nodes."""
    parallel = layout.parallel
    return max(1, parallel.data * parallel.tensor * parallel.pipeline // layout.nodes)


def place(facts: NodeFacts, workers: int, ask: CpuAsk, gpus: Sequence[Gpu] | None = None) -> CpuPlacement:
    """Divide this node's CPUs among its workers; worker i drives gpus[i] (None: the GPUs that may be used, in order).

    1. Usable CPUs are the allowed ones that are not isolated from the scheduler.
    2. SMT siblings stay together: what is divided is physical cores.
    3. GPU workers of others on this node count too; their part stays free.
    4. A worker belongs to the NUMA node of its GPU; a GPU whose node is unknown belongs to none.
    5. Housekeeping cores are taken first, from the node with most to spare.
    6. Each node's cores are divided among its workers by PCI address, contiguous and even, priority cores by
       themselves; workers of no node share what is left. So a GPU's CPUs do not depend on the order of the GPUs.
    7. With fewer cores than workers anywhere, everyone keeps all usable CPUs with one thread, and a note says so.
    8. Threads are physical cores, not logical CPUs, and at most the worker's part of a cgroup CPU quota. Engines take
       one number for all: that of the smallest part.
    """
    gpus = tuple(usable_gpus(facts.gpu) if gpus is None else gpus)[:workers]
    usable = sorted(set(facts.cpu.allowed) - set(facts.cpu.isolated)) or list(facts.cpu.allowed)
    others = neighbours(facts, gpus, usable)
    seats = _seats(facts, workers, gpus, others)
    cores = cores_of(facts.cpu, usable)
    priority = priority_cpus(facts.cpu)
    sets = _sets(facts.cpu, cores, seats, ask, priority)
    shared = sets is None
    every = sets or {worker: tuple(usable) for worker in range(workers)}
    threads = min(_threads(facts.cpu, every[worker], len(seats), shared=shared) for worker in range(workers))
    shares = tuple(
        _share(seat, every[seat.worker], threads, facts, len(seats), priority, pin=ask.pin, shared=shared)
        for seat in seats
        if seat.worker != _OTHERS
    )
    taken = {cpu for share in shares for cpu in share.cpus} | set(every.get(_OTHERS, ()))
    spare = tuple(cpu for cpu in usable if cpu not in taken)
    notes = (
        *_notes_on_limits(facts.cpu, usable),
        *_notes_on_memory(facts.numa),
        *others.notes,
        *_notes_on_locality(gpus, seats),
        *([_why_not_pinned(ask, len(cores), len(seats))] if shared else _notes_on_idle(facts, seats, spare)),
        *_notes_on_priority(facts.cpu, shares),
    )
    return CpuPlacement(shares, spare, notes)


def binding_notes(facts: NodeFacts, layout: LayoutAsk, placement: CpuPlacement) -> tuple[str, ...]:
    """Return what an engine that binds its workers by numactl cannot do on this node."""
    wanted = [w for w in placement.workers if w.memory_node is not None]
    if layout.engine not in _BIND_BY_NUMACTL or not wanted or "numactl" in facts.programs:
        return ()
    return (
        f"numactl is not installed: {layout.engine} does not bind its workers itself; kboot pins them when they run, "
        "their memory is not bound to a node",
    )


_BIND_BY_NUMACTL = ("vllm", "sglang")
_OTHERS = -1
"""Stands for the workers of others, who get a part of the CPUs and no plan."""


@dataclass(frozen=True, slots=True)
class _Seat:
    """One who gets a part. worker: -1 for another's. home: NUMA node; None when unknown."""

    worker: int
    gpu: Gpu | None
    home: int | None

    @property
    def order(self) -> tuple[str, str, int]:
        """Return what puts seats of a node in order: the machine's own order, not that of a list of GPUs."""
        return (self.gpu.bus_id, self.gpu.uuid, 0) if self.gpu else ("", "", self.worker)


def _seats(facts: NodeFacts, workers: int, gpus: Sequence[Gpu], others: Neighbours) -> tuple[_Seat, ...]:
    homes = {gpu.uuid: _home_node(gpu, facts) for gpu in (*gpus, *others.gpus)}
    own = [_Seat(w, gpus[w], homes[gpus[w].uuid]) if w < len(gpus) else _Seat(w, None, None) for w in range(workers)]
    return (*own, *(_Seat(_OTHERS, gpu, homes[gpu.uuid]) for gpu in others.gpus))


def _sets(
    cpu: CpuFacts, cores: Sequence[Core], seats: Sequence[_Seat], ask: CpuAsk, priority: frozenset[int]
) -> dict[int, Core] | None:
    """Return the CPUs of each worker, and of all others together; None when they cannot be told apart."""
    if not ask.pin:
        return None
    ordered = sorted(seats, key=lambda s: s.order)
    homes = [seat.home for seat in ordered]
    _, work = split_housekeeping(cores, cpu.node_of, homes, ask.housekeeping_cpus, priority)
    parts = divide(work, cpu.node_of, homes, priority)
    if parts is None:
        return None
    sets: dict[int, Core] = {}
    for seat, part in zip(ordered, parts, strict=True):
        sets[seat.worker] = flatten((sets.get(seat.worker, ()), part))
    return sets


def _share(
    seat: _Seat,
    cpus: Core,
    threads: int,
    facts: NodeFacts,
    seats: int,
    priority: frozenset[int],
    *,
    pin: bool,
    shared: bool,
) -> WorkerShare:
    serve = tuple(cpu for cpu in cpus if cpu in priority)
    return WorkerShare(
        worker=seat.worker,
        gpu=seat.gpu.index if seat.gpu else None,
        cpus=cpus,
        threads=threads,
        memory_node=_memory_node(seat.home, cpus, facts) if pin else None,
        reason=_reason(seat.home, cpus, threads, seats, facts.cpu.quota_cpus),
        device=seat.gpu.uuid if seat.gpu else "",
        serve_cpus=serve if len(serve) < len(cpus) and not shared else (),
    )


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


def _threads(cpu: CpuFacts, cpus: Core, seats: int, *, shared: bool) -> int:
    cores = len(cores_of(cpu, cpus))
    if shared:
        cores //= seats
    if cpu.quota_cpus is not None:
        cores = min(cores, int(cpu.quota_cpus // seats))
    return max(1, cores)


def _memory_node(home: int | None, cpus: Core, facts: NodeFacts) -> int | None:
    """Return the node to take memory from: the worker's, or that of its CPUs where they are all elsewhere.

    None where locality is unknown, the node has no memory or a cpuset keeps it away (binding to it is refused then:
    numactl#223, sglang#28401), or there is only one to choose from.
    """
    near = {facts.cpu.node_of.get(cpu) for cpu in cpus}
    node = home if home is None or home in near or len(near) != 1 else near.pop()
    with_memory = [n.number for n in facts.numa if n.cpus and n.memory_total_bytes != 0 and n.memory_allowed]
    return node if node in with_memory and len(with_memory) > 1 else None


def _notes_on_limits(cpu: CpuFacts, usable: Sequence[int]) -> Iterable[str]:
    if len(usable) < len(cpu.online):
        yield f"{len(usable)} of {len(cpu.online)} online CPUs may be used (affinity, cpuset or isolation)"
    if cpu.quota_cpus is not None and cpu.quota_cpus < len(usable):
        yield f"a cgroup quota allows {cpu.quota_cpus:g} CPUs of time on {len(usable)} CPUs"
    if cpu.throttled is not None and cpu.throttled.throttled_periods:
        stopped = f"{cpu.throttled.throttled_periods} of {cpu.throttled.periods} periods"
        yield f"the quota of {cpu.throttled.folder} has stopped its processes in {stopped} so far"


def _notes_on_memory(nodes: Sequence[NumaNode]) -> Iterable[str]:
    kept = [node.number for node in nodes if not node.memory_allowed]
    if kept:
        yield f"a cpuset keeps the memory of NUMA node {format_cpu_list(kept)} away (cpuset.mems): not bound to it"


def _notes_on_locality(gpus: Sequence[Gpu], seats: Sequence[_Seat]) -> Iterable[str]:
    if gpus and any(seat.home is None for seat in seats):
        yield "GPU locality unknown: CPUs are divided evenly and memory is not bound to a node"


def _notes_on_idle(facts: NodeFacts, seats: Sequence[_Seat], spare: Sequence[int]) -> Iterable[str]:
    """Yield where whole nodes have no worker: their CPUs are far from every GPU."""
    homes = {seat.home for seat in seats}
    idle = sorted({facts.cpu.node_of[cpu] for cpu in spare if cpu in facts.cpu.node_of} - homes)
    if idle and None not in homes:
        cpus = sum(facts.cpu.node_of.get(cpu) in idle for cpu in spare)
        nodes = f"node {idle[0]} has" if len(idle) == 1 else f"nodes {format_cpu_list(idle)} have"
        yield f"NUMA {nodes} no GPU of a worker: {cpus} CPUs are left to front ends"


def _notes_on_priority(cpu: CpuFacts, shares: Sequence[WorkerShare]) -> Iterable[str]:
    serve = [cpu for share in shares for cpu in share.serve_cpus]
    if serve:
        yield (
            f"{cpu.model} runs CPUs {format_cpu_list(serve)} faster than the others (Priority Core Turbo): "
            "workers load on all CPUs of their share and serve on these"
        )


def _why_not_pinned(ask: CpuAsk, cores: int, seats: int) -> str:
    if not ask.pin:
        return "the profile turns pinning off (cpu.pin = false)"
    return f"{cores} usable cores for {seats} workers: not pinned, one thread each"


def _reason(home: int | None, cpus: Core, threads: int, seats: int, quota: float | None) -> str:
    where = "locality unknown" if home is None else f"NUMA node {home}"
    limit = f", at most {quota:g} CPUs by quota" if quota is not None else ""
    return f"{where}: {len(cpus)} CPUs, {threads} threads for 1 of {seats} workers{limit}"
