"""What is said of GPU memory, RAM, disk and /dev/shm that are too small."""

from __future__ import annotations

from dataclasses import replace

from good_node import CHECKPOINT, CPU_PROFILE, GIB, GPUS, NODE, PROFILE, files, gpus, node

from kboot.checks import fit_disk, fit_ram, fit_shm, fit_vram
from kboot.facts.types import MigSlice, NodeFacts
from kboot.profile.types import FleetAsk, ModelAsk, ParallelAsk

UNREAD = node(asked={"weights": None})
"""The good node where nobody has read the headers of the checkpoint."""


def idle(**memory: int) -> NodeFacts:
    """Return the good node before its engine starts, with other memory."""
    return node(asked={"workers": ()}, memory=memory)


def test_the_fullest_rank_decides_where_the_headers_are_known() -> None:
    """What is replicated counts on every rank: the rank that holds most is compared, not an even part."""
    assert (
        "98 GiB of weights on the fullest rank of 8x-h200 (DP8+EP), 140 GiB free on GPU 0: 42 GiB are left"
        == fit_vram.run(NODE, PROFILE, CHECKPOINT).seen
    )


def test_weights_that_fit_evenly_and_not_with_what_is_replicated_fail() -> None:
    """A rank of 139 GiB with 5 GiB of reserve does not fit into 140 GiB, though an even part would."""
    assert NODE.asked.weights is not None
    share = replace(NODE.asked.weights, largest_bytes=139 * GIB, serves=False)
    finding = fit_vram.run(node(asked={"weights": share}), PROFILE, CHECKPOINT)

    assert ("fail", "more than 144 GiB free on every GPU") == (finding.status, finding.wanted)


def test_no_room_for_one_sequence_is_a_warning_of_its_own() -> None:
    """Weights that fit leave too little cache for the length asked for: the engine would refuse."""
    assert NODE.asked.weights is not None
    share = replace(NODE.asked.weights, serves=False)
    finding = fit_vram.run(node(asked={"weights": share}), PROFILE, CHECKPOINT)

    assert ("warn", True) == (finding.status, "no room for one sequence" in finding.seen)


def test_another_layouts_share_is_not_used() -> None:
    """The share that was read is of the layout it names."""
    assert NODE.asked.weights is not None
    facts = node(asked={"weights": replace(NODE.asked.weights, layout="4x-h200")})

    assert "if they divide evenly" in fit_vram.run(facts, PROFILE, CHECKPOINT).seen


def test_experts_are_spread_over_data_ranks() -> None:
    """Without headers, 96 shards of 8 GB over eight ranks are 89.4 GiB each, and it is said how that was found."""
    assert (
        "89.4 GiB of weights per GPU in layout 8x-h200, if they divide evenly, 140 GiB free on GPU 0: "
        "50.6 GiB are left" == fit_vram.run(UNREAD, PROFILE, CHECKPOINT).seen
    )


def test_without_expert_parallelism_every_data_rank_holds_all_weights() -> None:
    """Data parallelism alone does not divide the weights."""
    layout = replace(PROFILE.layout[0], parallel=ParallelAsk(data=8))

    assert "fail" == fit_vram.run(UNREAD, replace(PROFILE, layout=(layout,)), CHECKPOINT).status


def test_the_fullest_gpu_decides_and_its_holder_is_named() -> None:
    """B073: one GPU that is half full limits all; it is named with the pid that fills it."""
    facts = node(gpu={"gpus": (*GPUS[:3], replace(GPUS[3], memory_used_bytes=70 * GIB, processes=(99,)), *GPUS[4:])})
    finding = fit_vram.run(facts, PROFILE, CHECKPOINT)

    assert ("fail", True) == (finding.status, "71 GiB free on GPU 3, the fullest (pid 99" in finding.seen)


def test_a_gpu_without_memory_of_its_own_has_the_hosts() -> None:
    """B093: a unified part is judged by MemAvailable; a discrete one that does not tell stays unknown."""
    layout = replace(PROFILE.layout[0], gpu="GB10", gpus_per_node=1)
    profile = replace(PROFILE, layout=(layout,), model=ModelAsk(size_bytes=80 * GIB))
    silent = gpus(1, name="NVIDIA GB10", memory_total_bytes=None, memory_used_bytes=None)
    memory = {"total_bytes": 127600748 << 10, "available_bytes": 118566368 << 10}

    shared = node(gpu={"gpus": (replace(silent[0], unified=True),)}, memory=memory)
    assert "113 GiB free on GPU 0" in fit_vram.run(shared, profile, None).seen
    assert "unknown" == fit_vram.run(node(gpu={"gpus": silent}, memory=memory), profile, None).status


def test_a_slice_counts_with_its_own_memory() -> None:
    """B090: a MIG slice of 20 GiB is not the 141 GiB of its parent; a parent without instances has nothing."""
    slices = (MigSlice("MIG-1", "3g.20gb", 20 * GIB), MigSlice("MIG-2", "1g.10gb", 10 * GIB))

    assert 20 * GIB == fit_vram.free_bytes(replace(GPUS[0], mig=True, mig_slices=slices), NODE)
    assert 0 == fit_vram.free_bytes(replace(GPUS[0], mig=True), NODE)


def test_reserved_huge_pages_are_shown_beside_what_is_available() -> None:
    """B174: 6000 huge pages of 2 MiB explain why little is available, and giving them back is the hint."""
    facts = idle(total_bytes=16000000 << 10, available_bytes=2140000 << 10, hugepages_bytes=12288000 << 10)
    finding = fit_ram.run(facts, PROFILE, CHECKPOINT)

    assert "fail" == finding.status
    assert "2.04 GiB of 15.3 GiB available; 11.7 GiB are reserved as huge pages and not counted" in finding.seen
    assert "vm.nr_hugepages=0" in finding.hint


def test_the_cgroups_limit_counts() -> None:
    """A container's limit is named where it is below what the machine has."""
    finding = fit_ram.run(idle(limit_bytes=8 * GIB), PROFILE, CHECKPOINT)

    assert ("fail", True) == (finding.status, "limited to 8 GiB by the cgroup" in finding.seen)
    assert "memory.max" in finding.hint


def test_what_the_cgroup_holds_is_not_there_for_the_engine() -> None:
    """kubernetes/website#36453: 90 of a pod's 96 GiB are files in memory; more of the machine is of no help."""
    finding = fit_ram.run(idle(limit_bytes=96 * GIB, left_bytes=6 * GIB), PROFILE, CHECKPOINT)

    assert ("fail", True) == (finding.status, "6 GiB left of the 96 GiB that the cgroup may have" in finding.seen)
    assert "/dev/shm, emptyDir" in finding.hint


def test_memory_that_the_serving_engine_has_taken_is_not_missing() -> None:
    """A container's limit leaves little once the engine is up; what is left is shown, and nothing is short."""
    finding = fit_ram.run(node(memory={"limit_bytes": 64 * GIB, "left_bytes": 9 * GIB}), PROFILE, CHECKPOINT)

    assert ("ok", True) == (finding.status, "9 GiB left of the 64 GiB" in finding.seen)


def test_a_checkpoint_larger_than_memory_is_slow_but_no_failure() -> None:
    """What cannot stay warm is read from disk."""
    finding = fit_ram.run(idle(available_bytes=400 * GIB), PROFILE, CHECKPOINT)

    assert ("warn", True) == (finding.status, "about 50 % of them can stay warm" in finding.seen)


def test_only_missing_bytes_need_space() -> None:
    """A complete checkpoint fits on a full disk; three missing shards of 8 GB do not."""
    full = node(mounts=(replace(NODE.mounts[0], free_bytes=2 * 10**9),))
    finding = fit_disk.run(full, PROFILE, files("absent"))

    assert "ok" == fit_disk.run(full, PROFILE, CHECKPOINT).status
    assert ("fail", "2.00 GB free on /; 24.0 GB still to fetch") == (finding.status, finding.seen)


def test_where_a_part_is_fetched_room_for_the_whole_is_enough_and_less_is_not_judged() -> None:
    """Which part it is depends on the node's place in the fleet, which doctor does not look for."""
    full = node(mounts=(replace(NODE.mounts[0], free_bytes=2 * 10**9),))
    profile = replace(PROFILE, fleet=FleetAsk(fetch="local-experts"))
    findings = [fit_disk.run(facts, profile, files("absent")) for facts in (full, NODE)]

    assert ["unknown", "ok"] == [finding.status for finding in findings]
    assert "24.0 GB are not here, of which this node fetches a part" in findings[0].seen


def test_without_a_listing_the_published_size_is_a_warning() -> None:
    """Before anything is listed the profile's own number is the best there is."""
    profile = replace(PROFILE, model=ModelAsk(size_bytes=5 << 40))
    finding = fit_disk.run(NODE, profile, None)

    assert ("warn", True) == (finding.status, "org/model is published as 5.50 TB" in finding.seen)


def test_no_inodes_left_is_a_failure() -> None:
    """Space without inodes is none; file systems that do not count them say 0."""
    assert "fail" == fit_disk.run(node(mounts=(replace(NODE.mounts[0], free_inodes=12),)), PROFILE, CHECKPOINT).status
    assert "ok" == fit_disk.run(node(mounts=(replace(NODE.mounts[0], free_inodes=0),)), PROFILE, CHECKPOINT).status


def test_a_containers_default_shm_is_too_small_for_eight_workers() -> None:
    """B170: 64 MiB against eight times 64 MiB; the hint is the flag to start the container with."""
    finding = fit_shm.run(idle(shm_total_bytes=64 << 20, shm_free_bytes=64 << 20), PROFILE, CHECKPOINT)

    assert ("fail", "64 MiB of 64 MiB free in /dev/shm; 8 workers need 512 MiB (64 MiB each)") == (
        finding.status,
        finding.seen,
    )
    assert "--shm-size=512m" in finding.hint


def test_a_shm_of_that_size_is_large_enough_once_the_engine_is_in_it() -> None:
    """Who follows that hint has less free while the engine serves."""
    finding = fit_shm.run(node(memory={"shm_total_bytes": 512 << 20, "shm_free_bytes": 200 << 20}), PROFILE, CHECKPOINT)

    assert ("ok", "200 MiB of 512 MiB free in /dev/shm, beside the engine that serves") == (
        finding.status,
        finding.seen,
    )


def test_one_worker_needs_no_shm() -> None:
    """A single worker talks to nobody."""
    facts = node(memory={"shm_free_bytes": 1 << 20}, gpu={"nvml": "no-library", "gpus": (), "pci_bus_ids": ()})

    assert "skip" == fit_shm.run(facts, CPU_PROFILE, None).status
