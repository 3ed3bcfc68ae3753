"""What is said of CUDA, of how GPUs and network cards reach each other, and of CPUs and memory near them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from good_node import CHECKPOINT, GIB, GPUS, HEALTH, NODE, PROFILE, cuda, device, gpus, node

from kboot.checks import (
    cpu_cstates,
    cpu_smt_layout,
    fabric_imex,
    fabric_manager,
    fit_vram,
    gpu_cc_mode,
    gpu_cuda_init,
    gpu_devnodes,
    gpu_h2d,
    gpu_idle_clean,
    gpu_p2p,
    net_gpu_nic_affinity,
    net_ib,
    numa_free,
    numa_mempolicy_allowed,
    pci_acs,
    threads_plan,
)
from kboot.checks.rates import Rates, rates_here, rates_of
from kboot.facts.asked_types import LiveWorker, ManagerState
from kboot.facts.health_types import Fabric, FabricManager
from kboot.facts.link_types import Bridge, CudaDevice, CudaFacts, Imex
from kboot.facts.system_types import IdleState
from kboot.facts.types import Gap, NodeFacts

CASES = Path(__file__).parents[1] / "cases"
TWO_NODES = replace(PROFILE, layout=(replace(PROFILE.layout[0], nodes=2),))
RACK = Fabric("completed", "SUCCESS", 3, "5f0c3b1e-0000-4000-8000-00000000000a")


def in_virtual_machine(**changes: Any) -> NodeFacts:
    """Return the good node as a virtual machine with its GPUs passed through."""
    return node(health={"gpus": tuple(replace(h, virtualization="passthrough") for h in HEALTH)}, **changes)


@pytest.mark.parametrize(
    ("code", "hint"), [(802, "fabric.manager"), (803, "reload the module"), (999, "nvidia-uvm"), (34, "stub")]
)
def test_each_error_of_cuinit_has_its_own_fix(code: int, hint: str) -> None:
    """B099: what the error means for the person who has to act is in the hint, for 999 the missing nvidia-uvm."""
    finding = gpu_cuda_init.run(cuda(state="refused", error="SOMETHING", code=code, devices=()), PROFILE, None)

    assert ("fail", f"cuInit answers {code} (SOMETHING)", True) == (finding.status, finding.seen, hint in finding.hint)


def test_a_gpu_that_refuses_memory_is_named() -> None:
    """One GPU of eight has an error when a context is taken."""
    finding = gpu_cuda_init.run(cuda(devices=device(2, failed="ECC_UNCORRECTABLE")), None, None)

    assert ("fail", "no memory can be taken of GPU 2 (0000:03:00.0: ECC_UNCORRECTABLE)") == (
        finding.status,
        finding.seen,
    )


def test_a_gpu_that_cuda_leaves_out_is_a_finding_unless_somebody_hid_it() -> None:
    """CUDA_VISIBLE_DEVICES and MIG make CUDA list fewer; nothing else does."""
    assert NODE.asked.cuda is not None
    seven = replace(NODE.asked.cuda, devices=NODE.asked.cuda.devices[:7])

    assert "CUDA lists 7 of 8 GPUs that NVML lists" == gpu_cuda_init.run(node(asked={"cuda": seven}), None, None).seen
    assert "ok" == gpu_cuda_init.run(node(asked={"cuda": seven}, gpu={"visible": "0,1,2,3,4,5,6"}), None, None).status
    assert "ok" == gpu_cuda_init.run(node(asked={"cuda": seven}, gpu={"gpus": gpus(mig=True)}), None, None).status


@pytest.mark.parametrize(
    ("facts", "status"),
    [
        (cuda(state="hung", detail="no answer in 5 s"), "unknown"),
        (cuda(state="crashed"), "unknown"),
        (cuda(state="no-library"), "fail"),
        (node(asked={"cuda": None}), "skip"),
        (node(asked={"cuda": None}, gaps=(Gap("asked.cuda", "cuInit", "no process"),)), "unknown"),
    ],
)
def test_cuda_that_did_not_answer_is_never_ok(facts: NodeFacts, status: str) -> None:
    """Hung and crashed are unknown; a library that is missing beside NVML is a failure."""
    assert status == gpu_cuda_init.run(facts, PROFILE, CHECKPOINT).status


def test_parts_that_offer_no_peer_access_are_no_finding() -> None:
    """PCIe parts without NVLink, none of which reaches another: nothing is broken."""
    none = tuple(replace(d, peers=dict.fromkeys(d.peers, False)) for d in device(0))
    alone = node(
        asked={"cuda": CudaFacts("ok", devices=none)}, health={"gpus": tuple(replace(h, nvlinks=()) for h in HEALTH)}
    )

    assert ("skip", "no GPU reaches another: these parts do not offer it over PCIe") == (
        gpu_p2p.run(alone, None, None).status,
        gpu_p2p.run(alone, None, None).seen,
    )


def test_pcie_parts_of_two_sockets_reach_their_neighbours_only() -> None:
    """Over PCIe a pair on two sockets may be cut off; a pair on one socket may not, where its neighbours are not."""
    by_node = tuple(
        replace(d, peers={o.bus_id: o.numa_node == GPUS[n].numa_node for o in GPUS if o is not GPUS[n]})
        for n, d in enumerate(device(0))
    )
    health = {"gpus": tuple(replace(h, nvlinks=()) for h in HEALTH)}
    fine = node(asked={"cuda": CudaFacts("ok", devices=by_node)}, health=health)
    cut = replace(by_node[0], peers={**by_node[0].peers, GPUS[1].bus_id: False})
    odd = node(asked={"cuda": CudaFacts("ok", devices=(cut, *by_node[1:]))}, health=health)

    assert "ok" == gpu_p2p.run(fine, None, None).status
    assert ("warn", True) == (gpu_p2p.run(odd, None, None).status, "(0-1)" in gpu_p2p.run(odd, None, None).seen)


def test_a_rate_is_judged_by_class() -> None:
    """H100: 52 GB/s, H200: 55 GB/s, less a tenth; GH200 is neither."""
    assert Rates(52, 460, 380) == rates_of("NVIDIA H100 80GB HBM3")
    assert Rates(55, 480, 400) == rates_of("NVIDIA H200") == rates_here(NODE)
    assert (None, None) == (rates_of("NVIDIA GH200 480GB"), rates_here(node(gpu={"gpus": ()})))
    finding = gpu_h2d.run(cuda(devices=device(3, h2d_bytes_per_s=26.1e9)), PROFILE, CHECKPOINT)
    assert "bytes reach GPU 3 at 26.1 GB/s" == finding.seen
    assert "its share of the weights alone takes 3.7 s to copy, and the others wait for it" == finding.why


def test_a_class_without_a_row_is_compared_with_its_equals() -> None:
    """Eight of a new part at 12 GB/s are alike; one at 5 is not. Encrypted copies are known to be slower."""
    fresh = {"gpus": gpus(name="NVIDIA X1")}
    slow = tuple(replace(d, h2d_bytes_per_s=12e9) for d in device(0))
    odd = (replace(slow[0], h2d_bytes_per_s=5e9), *slow[1:])

    assert "ok" == gpu_h2d.run(node(gpu=fresh, asked={"cuda": CudaFacts("ok", devices=slow)}), None, None).status
    assert "warn" == gpu_h2d.run(node(gpu=fresh, asked={"cuda": CudaFacts("ok", devices=odd)}), None, None).status
    sealed = node(gpu=fresh, asked={"cuda": CudaFacts("ok", devices=odd)}, links={"confidential": "on"})
    assert "ok" == gpu_h2d.run(sealed, None, None).status


def test_gpus_that_are_busy_are_not_measured_and_not_called_slow() -> None:
    """Where no rate was measured, nothing is known of it."""
    idle = tuple(CudaDevice(g.bus_id) for g in GPUS)

    assert "unknown" == gpu_h2d.run(node(asked={"cuda": CudaFacts("ok", devices=idle)}), None, None).status


@pytest.mark.parametrize(
    ("state", "status"), [("off", "ok"), ("on", "warn"), ("devtools", "warn"), ("not-ready", "fail"), (None, "skip")]
)
def test_confidential_computing_is_said(state: str | None, status: str) -> None:
    """On is slower, not told to take work is broken, and a driver that does not tell is no finding."""
    assert status == gpu_cc_mode.run(node(links={"confidential": state}), None, None).status


def test_imex_is_only_asked_of_nodes_in_a_domain_and_a_layout_over_nodes() -> None:
    """No false alarm on single-node NVSwitch parts, nor for a layout of one node in a rack."""
    rack = {"gpus": tuple(replace(h, fabric=RACK) for h in HEALTH)}
    off = {"imex": Imex(running=False, nodes=None)}

    assert "skip" == fabric_imex.run(node(links=off), TWO_NODES, None).status
    assert "skip" == fabric_imex.run(node(links=off, health=rack), PROFILE, None).status
    assert "fail" == fabric_imex.run(node(links=off, health=rack), TWO_NODES, None).status


def test_a_container_shows_its_channel() -> None:
    """In a container no unit is seen; the channel that it was given is what counts."""
    rack = {"gpus": tuple(replace(h, fabric=RACK) for h in HEALTH)}
    given = {"imex": Imex(running=None, nodes=None, channels=("channel0",))}
    without = {"imex": Imex(running=None, nodes=None)}

    assert "ok" == fabric_imex.run(node(links=given, health=rack), TWO_NODES, None).status
    assert "NVIDIA_IMEX_CHANNELS" in fabric_imex.run(node(links=without, health=rack), TWO_NODES, None).hint


def test_acs_is_no_finding_where_it_cannot_matter_or_be_changed() -> None:
    """A virtual machine's bridges are its hypervisor's; without a shared switch nothing is redirected."""
    redirects = {"bridges": (Bridge("0000:00:03.0", ("request",)),)}

    assert "skip" == pci_acs.run(in_virtual_machine(links=redirects), None, None).status
    assert "skip" == pci_acs.run(node(links={"bridges": ()}), None, None).status


def test_a_configuration_space_that_only_root_reads_is_unknown() -> None:
    """Without privilege nobody knows, and the hint says what to do."""
    finding = pci_acs.run(node(links={"bridges": (Bridge("0000:00:03.0", None),)}), None, None)

    assert ("unknown", "run as root: others see the first 64 bytes only") == (finding.status, finding.hint)


def test_the_deepest_state_that_is_allowed_counts() -> None:
    """A deep state that is switched off costs nothing; a virtual machine has none."""
    states = (IdleState("C1", 1, disabled=False), IdleState("C10", 1034, disabled=True))

    assert (
        "the deepest idle state is C1, 1 µs to wake; off: C10"
        == cpu_cstates.run(node(system={"idle_states": states}), None, None).seen
    )
    assert "skip" == cpu_cstates.run(node(system={"idle_states": ()}), None, None).status


def test_half_a_core_is_a_finding_and_whole_cores_of_a_part_are_not() -> None:
    """A cpuset may be small; it should not share its cores with others."""
    smt = {n: (0, n % 32) for n in range(64)}
    whole = (*range(4), *range(32, 36))

    assert (
        "8 CPUs on 4 cores, 2 threads each"
        == cpu_smt_layout.run(node(cpu={"core_of": smt, "allowed": whole}), None, None).seen
    )
    finding = cpu_smt_layout.run(node(cpu={"core_of": smt, "allowed": tuple(range(8))}), None, None)
    assert ("warn", True) == (finding.status, "(CPUs 0-7)" in finding.seen)


def test_cores_that_could_not_be_read_are_unknown() -> None:
    """A gap is not "one thread for each core"."""
    facts = node(cpu={"core_of": {}}, gaps=(Gap("cpu.core_of", "/sys/cpu0", "not readable"),))

    assert "unknown" == cpu_smt_layout.run(facts, None, None).status
    assert "skip" == cpu_smt_layout.run(node(cpu={"core_of": {}}), None, None).status


def test_page_cache_makes_room_on_a_node() -> None:
    """A warm checkpoint fills a node's memory, and that is how it should be."""
    warm = tuple(replace(n, memory_free_bytes=GIB, memory_files_bytes=900 * GIB) for n in NODE.numa)
    full = tuple(replace(n, memory_free_bytes=GIB, memory_files_bytes=None) for n in NODE.numa)

    assert "ok" == numa_free.run(node(numa=warm), PROFILE, None).status
    assert (
        "node 0: 1 GiB for 4 workers, node 1: 1 GiB for 4 workers" == numa_free.run(node(numa=full), PROFILE, None).seen
    )


def test_memory_policy_is_told_apart_from_cpu_affinity() -> None:
    """B083: set_mempolicy is refused; the finding speaks of memory alone, and one node needs no binding."""
    refused = {"memory_policy": "set_mempolicy of node 0: Operation not permitted"}
    finding = numa_mempolicy_allowed.run(node(asked=refused), PROFILE, None)

    assert ("warn", "memory cannot be bound: set_mempolicy of node 0: Operation not permitted") == (
        finding.status,
        finding.seen,
    )
    assert "ok" == numa_mempolicy_allowed.run(node(asked=refused, numa=NODE.numa[:1]), PROFILE, None).status
    assert "skip" == numa_mempolicy_allowed.run(node(asked={"memory_policy": None}), PROFILE, None).status


def test_workers_off_plan_are_named_with_planned_and_found() -> None:
    """A worker that was not found, one whose threads stray, one whose environment was changed."""
    workers = (
        LiveWorker(0, None, 7, 0, 0, off_plan=("worker 0 was not found: no process of it could be told",)),
        LiveWorker(1, 41, 7, 212, 0, {"OMP_NUM_THREADS": ("7", ""), "TOKENIZERS_PARALLELISM": ("false", "true")}),
    )
    finding = threads_plan.run(node(asked={"workers": workers}), PROFILE, None)

    assert (
        "worker 0 was not found: no process of it could be told, worker 1 has OMP_NUM_THREADS=(not set), planned 7, "
        "worker 1 has TOKENIZERS_PARALLELISM=true, planned false" == finding.seen
    )
    assert "skip" == threads_plan.run(node(asked={"workers": ()}), PROFILE, None).status


def test_a_gpu_far_from_every_card_is_named_where_nodes_talk() -> None:
    """Half the cards are gone: the GPUs of their socket have none near. A layout of one node does not mind."""
    half = node(rdma=NODE.rdma[:4])

    assert ("warn", "GPU 4-7 has no RDMA port on its socket, others have one at PIX") == (
        net_gpu_nic_affinity.run(half, TWO_NODES, None).status,
        net_gpu_nic_affinity.run(half, TWO_NODES, None).seen,
    )
    assert "ok" == net_gpu_nic_affinity.run(half, PROFILE, None).status


def test_cards_on_the_socket_are_alike_on_grace_and_without_topology() -> None:
    """Where no GPU shares a switch with a card all are equal; where nothing tells locality, nothing is far."""
    flat = node(links={"path_of": {}})
    blind = node(
        gpu={"gpus": gpus(numa_node=None)},
        rdma=tuple(replace(p, numa_node=None) for p in NODE.rdma),
        links={"path_of": {}},
    )

    assert "nearest of 8 RDMA ports: PHB for 8 GPUs" == net_gpu_nic_affinity.run(flat, TWO_NODES, None).seen
    assert "ok" == net_gpu_nic_affinity.run(blind, TWO_NODES, None).status


def test_ports_of_an_older_generation_are_slow_for_a_layout_over_nodes() -> None:
    """H200 nodes have ports of 400 Gbit/s; all eight at 200 are alike, and yet half as fast. Ethernet is not judged."""
    old = tuple(replace(port, rate_gbit_s=200.0) for port in NODE.rdma)
    finding = net_ib.run(node(rdma=old), TWO_NODES, None)

    assert ("warn", True) == (finding.status, finding.seen.startswith("mlx5_0/1 at 200 of 400 Gbit/s"))
    assert "ok" == net_ib.run(node(rdma=old), PROFILE, None).status
    ethernet = tuple(replace(port, link_layer="Ethernet") for port in old)
    assert "ok" == net_ib.run(node(rdma=ethernet), TWO_NODES, None).status


def test_a_missing_uvm_device_is_found_without_cuda() -> None:
    """B099: nvidia0 and nvidiactl are there, nvidia-uvm is not: NVML works, CUDA does not."""
    there = json.loads((CASES / "B099" / "dev.json").read_text())
    nodes = tuple(path.removeprefix("/dev/") for path, exists in there.items() if exists)
    finding = gpu_devnodes.run(node(health={"device_nodes": nodes}, gpu={"gpus": gpus(1)}), None, None)

    assert ("fail", "missing: /dev/nvidia-uvm", True) == (
        finding.status,
        finding.seen,
        "nvidia-modprobe" in finding.hint,
    )


def test_slices_and_sealed_gpus_do_not_reach_each_other_and_that_is_no_fault() -> None:
    """MIG slices have no peer access, nor have GPUs under confidential computing; a fabric in progress has its own."""
    none = tuple(replace(d, peers=dict.fromkeys(d.peers, False)) for d in device(0))
    cut = {"cuda": CudaFacts("ok", devices=none)}
    waiting = tuple(replace(h, fabric=Fabric("in-progress", "SUCCESS", 0, "")) for h in HEALTH)

    assert "fail" == gpu_p2p.run(node(asked=cut), None, None).status
    assert "skip" == gpu_p2p.run(node(asked=cut, gpu={"gpus": gpus(mig=True)}), None, None).status
    assert "skip" == gpu_p2p.run(node(asked=cut, links={"confidential": "on"}), None, None).status
    assert "skip" == gpu_p2p.run(node(asked=cut, health={"gpus": waiting}), None, None).status


def test_acs_does_not_matter_between_gpus_with_nvlink() -> None:
    """Without an RDMA port that is up, nothing of theirs crosses a PCIe switch."""
    redirects = {"bridges": (Bridge("0000:00:03.0", ("request",)),)}
    down = tuple(replace(port, state="DOWN") for port in NODE.rdma)

    assert "skip" == pci_acs.run(node(links=redirects, rdma=down), None, None).status
    assert "warn" == pci_acs.run(node(links=redirects), None, None).status


def test_several_nodes_of_one_socket_are_not_far() -> None:
    """NPS4: the card is on another node of the same package."""
    quarters = tuple(
        replace(NODE.numa[0], number=n, cpus=tuple(range(8 * n, 8 * n + 8)), memory_total_bytes=GIB) for n in range(8)
    )
    spread = tuple(replace(g, numa_node=g.index // 4 * 4) for g in GPUS)
    cards = tuple(replace(p, numa_node=n // 4 * 4 + 3) for n, p in enumerate(NODE.rdma))
    facts = node(numa=quarters, gpu={"gpus": spread}, rdma=cards, links={"path_of": {}})

    assert "nearest of 8 RDMA ports: PHB for 8 GPUs" == net_gpu_nic_affinity.run(facts, TWO_NODES, None).seen


def test_the_engine_that_serves_is_no_stranger_on_its_gpus() -> None:
    """On a live node its workers hold the GPUs: neither "in use" nor "does not fit"; another's process is both."""
    workers = tuple(LiveWorker(n, 4000 + n, 7, 212, 0) for n in range(8))
    full = tuple(replace(g, processes=(4000 + g.index,), memory_used_bytes=130 * GIB) for g in GPUS)
    live = node(gpu={"gpus": full}, asked={"workers": workers})
    other = node(gpu={"gpus": (replace(full[0], processes=(4000, 99)), *full[1:])}, asked={"workers": workers})

    assert (
        "8 GPUs with workers of the engine that serves, no other process"
        == gpu_idle_clean.run(live, PROFILE, CHECKPOINT).seen
    )
    assert "ok" == fit_vram.run(live, PROFILE, CHECKPOINT).status
    assert ("warn", "fail") == (
        gpu_idle_clean.run(other, PROFILE, CHECKPOINT).status,
        fit_vram.run(other, PROFILE, CHECKPOINT).status,
    )


@pytest.mark.parametrize(
    ("manager", "fabric", "status", "word"),
    [
        (ManagerState("580.95.05", "active", 0), True, "ok", "8 GPUs registered"),
        (ManagerState("580.82.07", "active", 0), True, "warn", "is 580.82.07, the driver 580.95.05"),
        (ManagerState("580.82.07", "failed", 0), False, "fail", "is 580.82.07, the driver 580.95.05"),
        (ManagerState("580.95.05", "active", 3), True, "warn", "3 times again"),
        (ManagerState("580.95.05", "activating", 0), False, "warn", "is starting"),
        (ManagerState("580.95.05", "failed", 0), False, "fail", "does not run"),
    ],
)
def test_the_fabric_manager_is_of_the_drivers_version_and_stays(
    manager: ManagerState, fabric: bool, status: str, word: str
) -> None:
    """B157: versions are compared exactly, before its log says so; one that comes and goes is a warning."""
    changes = {} if fabric else {"fabric_manager": FabricManager(4, running=False, versions=None), "gpus": ()}
    finding = fabric_manager.run(node(asked={"manager": manager}, health=changes), PROFILE, None)

    assert (status, True) == (finding.status, word in finding.seen)
