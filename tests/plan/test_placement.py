"""Which CPUs does each GPU worker get, and how many threads?"""

from __future__ import annotations

from dataclasses import replace
from random import Random

import literals
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kboot.facts.types import NodeFacts, NumaNode, Throttling
from kboot.plan.placement import binding_notes, place, workers_on_node
from kboot.profile.types import CpuAsk, LayoutAsk, ParallelAsk

NO_HOUSEKEEPING = CpuAsk(housekeeping_cpus=0)


def test_each_worker_gets_an_equal_share_of_its_own_socket() -> None:
    """8 GPUs on 2 x 56 cores with SMT: 14 cores, 28 CPUs, 14 threads each, all on the GPU's socket."""
    placement = place(literals.hgx_h100(), 8, NO_HOUSEKEEPING)

    assert [14] * 8 == [w.threads for w in placement.workers]
    assert (*range(14), *range(112, 126)) == placement.workers[0].cpus
    assert (*range(56, 70), *range(168, 182)) == placement.workers[4].cpus
    assert [0, 0, 0, 0, 1, 1, 1, 1] == [w.memory_node for w in placement.workers]


def test_housekeeping_is_kept_aside_on_large_machines_only() -> None:
    """112 cores keep 3 for front ends, from the socket with most to spare; 32 cores keep none."""
    large = place(literals.hgx_h100(), 8, CpuAsk())
    small = place(literals.node(literals.cpu_facts([range(32)])), 2, CpuAsk())

    taken = {cpu for w in large.workers for cpu in w.cpus}
    assert {0, 112, 1, 113, 56, 168} <= set(large.housekeeping)
    assert not taken & set(large.housekeeping)
    assert [16, 16] == [len(w.cpus) for w in small.workers]


def test_nodes_without_a_gpu_give_housekeeping_first() -> None:
    """GPUs on nodes 1 and 3 of four: their cores are all for workers, the other nodes' for front ends."""
    cpu = literals.cpu_facts([range(16), range(16, 32), range(32, 48), range(48, 64)])
    gpus = [literals.gpu(0, 3), literals.gpu(1, 3), literals.gpu(2, 1), literals.gpu(3, 1)]
    placement = place(literals.node(cpu, gpus), 4, CpuAsk())

    assert [8] * 4 == [w.threads for w in placement.workers]
    assert (*range(16), *range(32, 48)) == placement.housekeeping
    assert ("NUMA nodes 0,2 have no GPU of a worker: 32 CPUs are left to front ends",) == placement.notes


def test_a_worker_of_another_engine_gets_its_part() -> None:
    """GPU 1 works for pid 70: of 32 cores 8 stay free on its node, and the plan names the pid."""
    cpu = literals.cpu_facts([range(16), range(16, 32)])
    busy = replace(literals.gpu(1, 0), processes=(70,))
    facts = literals.node(cpu, [literals.gpu(0, 0), busy, literals.gpu(2, 1)])
    ours = [facts.gpu.gpus[0], facts.gpu.gpus[2]]
    placement = place(facts, 2, NO_HOUSEKEEPING, ours)

    assert [tuple(range(8)), tuple(range(16, 32))] == [w.cpus for w in placement.workers]
    assert 8 == placement.threads
    assert ("others work on GPU 1 (pid 70): their part of the CPUs stays free",) == placement.notes


def test_a_worker_that_is_kept_to_other_cpus_does_not_count() -> None:
    """Pid 70 may only run on CPUs that are not ours: nothing is left free for it."""
    cpu = literals.cpu_facts([range(16)], allowed=tuple(range(8)))
    busy = replace(literals.gpu(1, 0), processes=(70,))
    facts = literals.node(cpu, [literals.gpu(0, 0), busy])
    facts = replace(facts, gpu=replace(facts.gpu, cpus_of_pid={70: (8, 9, 10)}))

    assert [tuple(range(8))] == [w.cpus for w in place(facts, 1, NO_HOUSEKEEPING).workers]


def test_siblings_of_an_external_load_balancer_get_disjoint_parts() -> None:
    """Eight starts that each see one GPU: 14 threads each, and together what one start of eight would give."""
    node = literals.hgx_h100()
    whole = place(node, 8, CpuAsk())
    single = [place(replace(node, gpu=replace(node.gpu, visible=str(i))), 1, CpuAsk()).workers[0] for i in range(8)]

    assert [w.cpus for w in whole.workers] == [w.cpus for w in single]
    assert [w.threads for w in whole.workers] == [w.threads for w in single]


def test_a_mask_that_divides_the_cpus_leaves_them_to_the_visible_gpus() -> None:
    """One GPU visible of two, and 8 CPUs of 16 allowed: whoever divided the GPUs divided the CPUs as well."""
    cpu = literals.cpu_facts([range(16)], allowed=tuple(range(8)))
    facts = literals.node(cpu, [literals.gpu(0, 0), literals.gpu(1, 0)])
    facts = replace(facts, gpu=replace(facts.gpu, visible="1"))

    assert [(1, tuple(range(8)))] == [(w.gpu, w.cpus) for w in place(facts, 1, NO_HOUSEKEEPING).workers]


def test_priority_cores_are_divided_among_all_and_serve() -> None:
    """Xeon 6776P: loads on 14 cores each, serves on the 2 fast ones with their siblings; housekeeping takes none."""
    nodes = ([*range(64), *range(128, 192)], [*range(64, 128), *range(192, 256)])
    cpu = literals.cpu_facts(nodes, smt=True, model="Intel(R) Xeon(R) 6776P")
    placement = place(literals.node(cpu, [literals.gpu(i, i // 4) for i in range(8)]), 8, CpuAsk())

    assert [(30, 15, (0, 1, 128, 129)), (30, 15, (16, 17, 144, 145))] == [
        (len(w.cpus), w.threads, w.serve_cpus) for w in placement.workers[:2]
    ]
    assert {4} == {len(w.serve_cpus) for w in placement.workers}
    assert not any(cpu % 16 < 2 for cpu in placement.housekeeping)
    assert "Xeon(R) 6776P runs CPUs 0-1,16-17" in placement.notes[-1]


def test_an_engine_that_binds_by_numactl_says_so_where_it_is_missing() -> None:
    """B081: the plan says what cannot be had before the engine finds out."""
    node, layout = literals.hgx_h100(), LayoutAsk(name="l", gpu="H100", gpus_per_node=8)
    (note,) = binding_notes(node, layout, place(node, 8, CpuAsk()))
    with_it = replace(node, programs={"numactl": "/usr/bin/numactl"})

    assert note.startswith("numactl is not installed: vllm does not bind its workers itself")
    assert () == binding_notes(with_it, layout, place(with_it, 8, CpuAsk()))


def test_a_quota_that_has_stopped_processes_is_named() -> None:
    """cpu.stat counts before the engine starts: somebody already runs into the quota."""
    throttled = Throttling("/sys/fs/cgroup/pod", 400, 100, 2.5)
    cpu = literals.cpu_facts([range(16)], quota_cpus=8.0, throttled=throttled)

    assert "the quota of /sys/fs/cgroup/pod has stopped its processes in 100 of 400 periods so far" in (
        place(literals.node(cpu), 2, CpuAsk()).notes
    )


def test_unknown_locality_divides_evenly_and_binds_no_memory() -> None:
    """B077: numa_node -1 for every GPU: even shares without overlap, no membind, and the plan says so."""
    cpu = literals.cpu_facts([range(16), range(16, 32)])
    placement = place(literals.node(cpu, [literals.gpu(0, None), literals.gpu(1, None)]), 2, CpuAsk())

    assert [16, 16] == [len(w.cpus) for w in placement.workers]
    assert set() == set(placement.workers[0].cpus) & set(placement.workers[1].cpus)
    assert [None, None] == [w.memory_node for w in placement.workers]
    assert any("locality unknown" in note for note in placement.notes)


def test_a_memory_only_node_is_no_bind_target() -> None:
    """B075: on Grace the GPU's memory is a node without CPUs; its CPU affinity names the node to run on."""
    cpu = literals.cpu_facts([range(72), range(72, 144)])
    numa = (
        NumaNode(0, tuple(range(72)), 480 * literals.GIB, None, {0: 10, 1: 40, 2: 80}),
        NumaNode(1, tuple(range(72, 144)), 480 * literals.GIB, None, {0: 40, 1: 10, 2: 120}),
        NumaNode(2, (), 96 * literals.GIB, None, {0: 80, 1: 120, 2: 10}),
        NumaNode(18, (), 96 * literals.GIB, None, {0: 120, 1: 80, 2: 40}),
    )
    by_affinity = [literals.gpu(0, 2, range(72)), literals.gpu(2, 18, range(72, 144))]
    by_distance = [literals.gpu(0, 2), literals.gpu(2, 18)]

    for gpus in (by_affinity, by_distance):
        placement = place(literals.node(cpu, gpus, numa), 2, NO_HOUSEKEEPING)
        assert [0, 1] == [w.memory_node for w in placement.workers]
        assert (0, 72) == (placement.workers[0].cpus[0], placement.workers[1].cpus[0])


def test_a_plan_stays_inside_the_allowed_cpus() -> None:
    """B079: cpuset 4-11 of 0-31: every worker's CPUs are a subset of 4-11."""
    cpu = literals.cpu_facts([range(32)], allowed=tuple(range(4, 12)))
    placement = place(literals.node(cpu, [literals.gpu(0, 0), literals.gpu(1, 0)]), 2, CpuAsk())

    assert [(4, 5, 6, 7), (8, 9, 10, 11)] == [w.cpus for w in placement.workers]


def test_offline_cpus_are_never_used_and_the_highest_online_one_is() -> None:
    """B085: online 0-9,12-63: 10 and 11 are in no set, 63 is."""
    cpu = literals.cpu_facts([[*range(10), *range(12, 32)], list(range(32, 64))])
    placement = place(literals.node(cpu, [literals.gpu(0, 0), literals.gpu(1, 1)]), 2, NO_HOUSEKEEPING)

    used = {c for w in placement.workers for c in w.cpus}
    assert 62 == len(used)
    assert 63 in used
    assert not used & {10, 11}


@pytest.mark.parametrize(
    ("cpus", "smt", "workers", "threads"),
    [(224, True, 4, 28), (8, False, 4, 2), (64, True, 2, 16)],
    ids=["B101 224 CPUs DP4", "B103 8 CPUs TP4", "B103 2x16 cores SMT TP2"],
)
def test_the_share_counts_all_workers_and_physical_cores(cpus: int, smt: bool, workers: int, threads: int) -> None:
    """B101, B103: threads = physical cores / all workers of the node, whatever the parallel axis."""
    half = cpus // 2
    nodes = [range(half), range(half, cpus)]
    placement = place(literals.node(literals.cpu_facts(nodes, smt=smt)), workers, NO_HOUSEKEEPING)

    assert threads == placement.threads


def test_a_quota_limits_threads_but_not_the_cpus() -> None:
    """A cgroup quota of 4 CPUs for 2 workers on 16: 2 threads each on 8 CPUs each, and a note."""
    cpu = literals.cpu_facts([range(16)], quota_cpus=4.0)
    placement = place(literals.node(cpu), 2, CpuAsk())

    assert [(8, 2), (8, 2)] == [(len(w.cpus), w.threads) for w in placement.workers]
    assert any("quota" in note for note in placement.notes)


def test_fewer_cores_than_workers_are_shared_not_pinned() -> None:
    """2 CPUs for 8 workers: one thread each on both CPUs, and the plan says why."""
    placement = place(literals.node(literals.cpu_facts([range(2)])), 8, CpuAsk())

    assert {((0, 1), 1)} == {(w.cpus, w.threads) for w in placement.workers}
    assert any("2 usable cores for 8 workers" in note for note in placement.notes)


def test_a_node_too_small_for_its_gpus_borrows_from_the_others() -> None:
    """2 GPUs on a 1-core node of a 4-core machine: everyone still gets a core of its own."""
    cpu = literals.cpu_facts([[0], [1, 2, 3]])
    placement = place(literals.node(cpu, [literals.gpu(0, 0), literals.gpu(1, 0)]), 2, NO_HOUSEKEEPING)

    assert [2, 2] == [len(w.cpus) for w in placement.workers]


def test_gpus_of_unequal_nodes_use_their_own_cores() -> None:
    """3 GPUs on one SNC node and 1 on the next: each stays on its node; the engine's one number is the smallest."""
    cpu = literals.cpu_facts([range(24), range(24, 48)])
    gpus = [literals.gpu(0, 0), literals.gpu(1, 0), literals.gpu(2, 0), literals.gpu(3, 1)]
    placement = place(literals.node(cpu, gpus), 4, NO_HOUSEKEEPING)

    assert [8, 8, 8, 24] == [len(w.cpus) for w in placement.workers]
    assert 8 == placement.threads


def test_pinning_can_be_turned_off_and_the_share_still_holds() -> None:
    """cpu.pin = false: all CPUs for everyone, but never more threads in sum than cores."""
    placement = place(literals.hgx_h100(), 8, CpuAsk(pin=False))

    assert 224 == len(placement.workers[0].cpus)
    assert 14 == placement.threads
    assert {None} == {w.memory_node for w in placement.workers}


@pytest.mark.parametrize(
    ("parallel", "nodes", "workers"),
    [(ParallelAsk(data=8), 1, 8), (ParallelAsk(data=4, tensor=8), 4, 8), (ParallelAsk(), 1, 1)],
)
def test_workers_of_a_node_are_all_ranks_over_the_nodes(parallel: ParallelAsk, nodes: int, workers: int) -> None:
    """Every local rank counts: data x tensor x pipeline over the nodes."""
    assert workers == workers_on_node(LayoutAsk(name="l", gpu="H100", gpus_per_node=8, nodes=nodes, parallel=parallel))


@st.composite
def machines(draw: st.DrawFn) -> tuple[NodeFacts, int]:
    """Nodes with random topology, allowed CPUs, GPUs and locality."""
    smt = draw(st.booleans())
    count = draw(st.integers(1, 4))
    per_node = 2 * draw(st.integers(1, 12))
    nodes = [list(range(n * per_node, (n + 1) * per_node)) for n in range(count)]
    cpu = literals.cpu_facts(nodes, smt=smt)
    allowed = draw(st.lists(st.sampled_from(cpu.online), min_size=1, unique=True))
    quota = draw(st.one_of(st.none(), st.floats(0.5, 64)))
    workers = draw(st.integers(1, 12))
    homes = draw(st.lists(st.one_of(st.none(), st.integers(0, count - 1)), min_size=workers, max_size=workers))
    gpus = [literals.gpu(i, home) for i, home in enumerate(homes)]
    return literals.node(replace(cpu, allowed=tuple(sorted(allowed)), quota_cpus=quota), gpus), workers


@given(machines(), st.integers(-1, 8))
def test_no_cpu_is_given_twice_or_taken_from_outside(machine: tuple[NodeFacts, int], housekeeping: int) -> None:
    """Sets lie inside the allowed CPUs; they are disjoint or, with too few cores, all the same."""
    facts, workers = machine
    placement = place(facts, workers, CpuAsk(housekeeping_cpus=housekeeping))
    sets = [set(w.cpus) for w in placement.workers]
    cores = {facts.cpu.core_of[cpu] for cpu in facts.cpu.allowed}

    assert all(s and s <= set(facts.cpu.allowed) for s in sets)
    if len(cores) >= workers:
        assert sum(map(len, sets)) == len(set().union(*sets))
        assert sum(w.threads for w in placement.workers) <= max(len(cores), workers)
    assert all(1 <= w.threads <= len(w.cpus) for w in placement.workers)


@given(machines())
def test_siblings_stay_together(machine: tuple[NodeFacts, int]) -> None:
    """No physical core is divided between two workers."""
    facts, workers = machine
    placement = place(facts, workers, CpuAsk())
    if len({facts.cpu.core_of[cpu] for cpu in facts.cpu.allowed}) >= workers:
        owners = {(facts.cpu.core_of[cpu], w.worker) for w in placement.workers for cpu in w.cpus}
        assert len(owners) == len({core for core, _ in owners})


@given(machines(), st.randoms(use_true_random=False))
def test_the_order_of_gpus_changes_nothing(machine: tuple[NodeFacts, int], random: Random) -> None:
    """Each GPU keeps its CPUs however the list of GPUs is ordered."""
    facts, workers = machine
    shuffled = list(facts.gpu.gpus)
    random.shuffle(shuffled)
    before, after = (place(facts, workers, CpuAsk(), gpus) for gpus in (facts.gpu.gpus, shuffled))

    assert {w.gpu: w.cpus for w in before.workers} == {w.gpu: w.cpus for w in after.workers}
    assert before.housekeeping == after.housekeeping


@given(machines(), st.integers(1, 6))
def test_workers_are_on_their_node_where_it_has_a_core_for_each(machine: tuple[NodeFacts, int], busy: int) -> None:
    """Local when possible, with workers of others counted; no CPU of theirs is ours or housekeeping."""
    facts, _ = machine
    gpus = tuple(replace(g, processes=(1000 + g.index,)) if g.index < busy else g for g in facts.gpu.gpus)
    facts = replace(facts, gpu=replace(facts.gpu, gpus=gpus))
    own = gpus[busy:]
    placement = place(facts, len(own), CpuAsk(housekeeping_cpus=0), own) if own else None
    if placement is None:
        return
    cores = {
        node: {facts.cpu.core_of[c] for c in facts.cpu.allowed if facts.cpu.node_of[c] == node} for node in range(4)
    }
    homes = [gpu.numa_node for gpu in gpus]
    if None not in homes and all(len(cores[home]) >= homes.count(home) for home in homes if home is not None):
        for share, gpu in zip(placement.workers, own, strict=True):
            assert {gpu.numa_node} == {facts.cpu.node_of[cpu] for cpu in share.cpus}
            others = sum(g.numa_node == gpu.numa_node for g in gpus)
            assert len({facts.cpu.core_of[cpu] for cpu in share.cpus}) == len(cores[gpu.numa_node or 0]) // others


def test_memory_is_not_bound_to_a_node_that_a_cpuset_keeps_away() -> None:
    """sglang#28401: numactl refuses it, and a worker ends before its Python starts."""
    node = literals.hgx_h100()
    numa = tuple(replace(n, memory_allowed=n.number != 0) for n in node.numa)
    placement = place(replace(node, numa=numa), 8, NO_HOUSEKEEPING)

    assert {None} == {w.memory_node for w in placement.workers}
    assert "a cpuset keeps the memory of NUMA node 0 away (cpuset.mems): not bound to it" in placement.notes
