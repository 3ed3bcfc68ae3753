"""What is said of GPUs that are lost, old, held, sliced, far away, or none of ours."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from good_node import CHECKPOINT, GIB, GPUS, NODE, PROFILE, gpus, node

from kboot.checks import (
    gpu_count,
    gpu_driver_lib_match,
    gpu_idle_clean,
    gpu_mig_mode,
    gpu_nvml_responsive,
    numa_gpu_node,
    numa_mempolicy_allowed,
)
from kboot.facts.gpu import collect_gpu
from kboot.facts.kernel_events import kernel_events
from kboot.facts.types import Gap, NumaNode
from kboot.host.recorded import RecordedHost
from kboot.profile.types import LayoutAsk


def test_a_lost_gpu_is_named_and_the_rest_counted() -> None:
    """B095: index 1 of 4 is lost; the finding counts the three that answer and quotes NVML."""
    facts = replace(
        node(gpu={"gpus": (GPUS[0], *GPUS[2:4]), "pci_bus_ids": ()}),
        gaps=(Gap("gpu.gpus.1", "NVML", "GPU_IS_LOST"),),
    )
    finding = gpu_count.run(facts, PROFILE, CHECKPOINT)

    assert ("fail", "3 of 4 GPUs answer; lost: GPU 1 (GPU_IS_LOST)") == (finding.status, finding.seen)


def test_a_gpu_that_only_the_bus_knows_is_lost() -> None:
    """A GPU on the PCI bus that NVML does not list is named by its address."""
    finding = gpu_count.run(node(gpu={"gpus": gpus(7)}), None, None)

    assert ("fail", "7 of 8 GPUs answer; lost: 0000:08:00.0") == (finding.status, finding.seen)


def test_a_container_with_some_of_the_gpus_has_lost_none() -> None:
    """A container sees the whole bus but NVML lists only its own GPUs: no finding."""
    facts = node(gpu={"gpus": gpus(4)}, os={"container": "docker"})

    assert "ok" == gpu_count.run(facts, None, None).status


def test_a_job_of_slurm_with_some_of_the_gpus_has_lost_none() -> None:
    """ollama#11356: its cgroup shows the devices that were asked for, sysfs all of the node."""
    given = node(gpu={"gpus": NODE.gpu.gpus[:2]})

    assert "fail" == gpu_count.run(given, None, None).status
    assert "ok" == gpu_count.run(replace(given, os=replace(NODE.os, slurm_job=True)), None, None).status


def test_a_driver_that_is_too_old_is_not_called_no_gpu() -> None:
    """B155: the PCI id and the driver's version are named where the probe failed."""
    facts = node(gpu={"gpus": (), "pci_bus_ids": ("0000:31:00.0",), "driver_version": "570.86.15"})
    finding = gpu_count.run(facts, None, None)

    assert "fail" == finding.status
    assert (
        "NVML lists 0 GPUs, the PCI bus has 1 (0000:31:00.0): "
        "driver 570.86.15 did not take them over, it is too old for them or its probe failed"
    ) == finding.seen


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (
            "[ 3.1] NVRM: The NVIDIA GPU 0000:31:00.0 (PCI ID: 10de:2901)\n"
            "[ 3.1] NVRM: installed in this system requires use of the NVIDIA open kernel modules.\n",
            "The NVIDIA GPU 0000:31:00.0 (PCI ID: 10de:2901) installed in this system requires use of the NVIDIA open",
        ),
        (
            "[ 3.1] NVRM: The NVIDIA GPU 0000:31:00.0 (PCI ID: 10de:1db5) NVRM: installed in this system is not "
            "supported by open NVRM: nvidia.ko because it does not include the required GPU NVRM: System Processor.\n",
            "is not supported by open nvidia.ko because it does not include the required GPU",
        ),
    ],
)
def test_why_the_module_refused_a_gpu_is_told_in_its_words(lines: str, said: str) -> None:
    """negativo17/nvidia-driver#158: a module of the other flavour is not "too old", whether for all GPUs or for one."""
    health = {"kernel_events": kernel_events(lines)}
    none = node(gpu={"gpus": (), "pci_bus_ids": ("0000:31:00.0",)}, health=health)
    one = node(gpu={"pci_bus_ids": (*NODE.gpu.pci_bus_ids, "0000:31:00.0")}, health=health)

    assert said in gpu_count.run(none, None, None).seen
    assert "too old" not in gpu_count.run(none, None, None).seen
    assert said in gpu_count.run(one, None, None).seen


def test_a_module_without_its_libraries_is_not_called_no_driver() -> None:
    """A container without the NVIDIA runtime sees the host's bus and module, and has no library."""
    facts = node(
        gpu={"nvml": "no-library", "gpus": (), "pci_bus_ids": ("0000:31:00.0",), "driver_version": "580.95.05"}
    )

    for check in (gpu_count, gpu_nvml_responsive):
        assert "module 580.95.05 is loaded" in check.run(facts, None, None).seen
    assert "NVIDIA_DRIVER_CAPABILITIES" in gpu_count.run(facts, None, None).hint


@pytest.mark.parametrize(
    ("said", "container", "hint"),
    [
        ("UNKNOWN", "docker", "daemon-reload"),  # nvidia-container-toolkit#48, #251
        ("UNKNOWN", None, "dmesg"),
        ("NO_PERMISSION", None, "/dev/nvidiactl"),
    ],
)
def test_why_nvml_refuses_has_its_own_next_step(tmp_path: Path, said: str, container: str | None, hint: str) -> None:
    """Devices that a reload of systemd took away, device files that are not ours to open."""
    gpu, _ = collect_gpu(RecordedHost(tmp_path), {"nvml_init": said})
    facts = replace(NODE, gpu=gpu, os=replace(NODE.os, container=container))

    assert hint in gpu_nvml_responsive.run(facts, None, None).hint


def test_one_node_whose_memory_may_be_used_is_nothing_to_bind() -> None:
    """A cpuset that leaves one node needs no policy besides."""
    numa = tuple(NumaNode(n, (n,), 8 << 30, 4 << 30, {}, memory_allowed=n == 1) for n in (0, 1))

    assert "ok" == numa_mempolicy_allowed.run(replace(NODE, numa=numa), None, None).status


def test_gpus_without_a_driver_are_counted_on_the_bus() -> None:
    """Without a driver the PCI bus still knows the GPUs."""
    facts = node(gpu={"nvml": "no-library", "gpus": (), "pci_bus_ids": ("0000:31:00.0",)})
    finding = gpu_count.run(facts, None, None)

    assert ("fail", True) == (finding.status, "has 1 NVIDIA GPU (0000:31:00.0)" in finding.seen)


def test_a_layout_with_fewer_gpus_is_taken_before_one_falls_short() -> None:
    """On four GPUs the layout for four is meant, though the one for eight stands first."""
    profile = replace(PROFILE, layout=(*PROFILE.layout, LayoutAsk(name="4x", gpu="H200", gpus_per_node=4)))
    facts = node(gpu={"gpus": gpus(4), "pci_bus_ids": tuple(g.bus_id for g in gpus(4))})

    assert "ok" == gpu_count.run(facts, profile, None).status
    assert "fail" == gpu_count.run(facts, PROFILE, None).status


def test_gh200_is_no_h200() -> None:
    """A class is a word of the product name, not a part of one."""
    finding = gpu_count.run(node(gpu={"gpus": gpus(name="NVIDIA GH200 480GB")}), PROFILE, None)

    assert ("fail", True) == (finding.status, "has no layout for them" in finding.seen)


def test_versions_that_differ_are_both_named() -> None:
    """B097: a replaced library beside an older loaded module is its own finding, with both versions."""
    detail = "loaded module 550.90.07, library 550.107: reload the driver or reboot"
    finding = gpu_driver_lib_match.run(node(gpu={"nvml": "mismatch", "detail": detail, "gpus": ()}), None, None)

    assert "fail" == finding.status
    assert all(version in finding.seen for version in ("550.90.07", "550.107"))


def test_a_hung_driver_leaves_versions_unknown() -> None:
    """What NVML did not say is unknown."""
    assert "unknown" == gpu_driver_lib_match.run(node(gpu={"nvml": "hung", "gpus": ()}), None, None).status


def test_who_holds_a_gpu_is_named() -> None:
    """The pids on a GPU are named with what they hold."""
    facts = node(gpu={"gpus": (replace(GPUS[0], processes=(4711,), memory_used_bytes=3 * GIB), *GPUS[1:])})
    finding = gpu_idle_clean.run(facts, PROFILE, None)

    assert ("warn", "1 GPU (0) in use by pid 4711, 3 GiB held") == (finding.status, finding.seen)


def test_memory_held_by_nobody_is_a_finding() -> None:
    """Used memory without a process shows an orphaned context."""
    facts = node(gpu={"gpus": (replace(GPUS[0], memory_used_bytes=30 * GIB), *GPUS[1:])})

    assert "memory is held with no process to show for it (GPU 0: 30 GiB)" == gpu_idle_clean.run(facts, None, None).seen


def test_a_gpu_that_shares_the_hosts_memory_is_not_held() -> None:
    """B093: on a unified part used memory is the machine's, not an orphan's."""
    shared = gpus(1, unified=True, memory_total_bytes=127600748 << 10, memory_used_bytes=100 * GIB)

    assert "ok" == gpu_idle_clean.run(node(gpu={"gpus": shared}), None, None).status


def test_mig_is_a_finding_only_where_whole_gpus_are_asked_for() -> None:
    """A sliced node is as its owner wants it until a layout needs whole GPUs."""
    facts = node(gpu={"gpus": gpus(mig=True)})

    assert "ok" == gpu_mig_mode.run(facts, None, None).status
    assert (
        "MIG is on for GPU 0-7; layout 8x-h200 needs 8 whole GPUs, 0 are left"
        == gpu_mig_mode.run(facts, PROFILE, None).seen
    )


def test_gpus_without_a_node_on_two_sockets_are_a_warning() -> None:
    """B077: numa_node -1 on a machine with two CPU nodes is said as "locality unknown"."""
    finding = numa_gpu_node.run(node(gpu={"gpus": gpus(2, numa_node=None, cpu_affinity=None)}), None, None)

    assert ("warn", "locality unknown: GPU 0-1 tells no NUMA node, and CPUs are on nodes 0-1") == (
        finding.status,
        finding.seen,
    )


def test_an_affinity_with_all_cpus_tells_no_locality() -> None:
    """A virtual machine without topology calls every CPU near; that is no answer."""
    facts = node(gpu={"gpus": gpus(2, numa_node=None, cpu_affinity=tuple(range(64)))})

    assert "warn" == numa_gpu_node.run(facts, None, None).status


def test_one_cpu_node_needs_no_locality() -> None:
    """With one CPU node, and memory-only nodes beside it as on Grace, nothing is missing."""
    facts = node(
        gpu={"gpus": gpus(numa_node=None, cpu_affinity=None)},
        numa=(NODE.numa[0], NumaNode(2, (), 96 * GIB, 96 * GIB, {})),
    )

    assert "ok" == numa_gpu_node.run(facts, None, None).status


def test_an_nvidia_device_of_unknown_kind_is_not_no_gpu() -> None:
    """B155: NVML lists none, and sysfs does not say what the NVIDIA device on the bus is: not "no GPU"."""
    facts = replace(
        node(gpu={"gpus": (), "pci_bus_ids": ()}), gaps=(Gap("gpu.pci.0000:31:00.0", "sysfs", "class: no such file"),)
    )
    finding = gpu_count.run(facts, None, None)

    assert ("fail", True) == (finding.status, "0000:31:00.0" in finding.seen)


def test_a_driver_of_unknown_version_agrees_with_nothing() -> None:
    """NVML answers without a version: that is unknown, and unknown is not ok."""
    assert "unknown" == gpu_driver_lib_match.run(node(gpu={"driver_version": None}), None, None).status


def test_processes_that_could_not_be_listed_are_unknown() -> None:
    """B093: a part that does not list processes is not "without processes"."""
    facts = replace(node(), gaps=(Gap("gpu.gpus.0.processes", "NVML", "NOT_SUPPORTED"),))

    assert "unknown" == gpu_idle_clean.run(facts, None, None).status


def test_a_memory_only_node_is_not_where_the_cpus_are() -> None:
    """B075: on Grace the GPU's own node holds memory; the node named is the one whose CPUs are near."""
    numa = tuple(NumaNode(n, cpus, GIB, None, {}) for n, cpus in ((0, (0, 1)), (1, (2, 3)), (2, ()), (18, ())))
    cards = (
        replace(GPUS[0], numa_node=2, cpu_affinity=(0, 1)),
        replace(GPUS[1], numa_node=18, cpu_affinity=(2, 3)),
    )
    finding = numa_gpu_node.run(replace(node(gpu={"gpus": cards}), numa=numa), None, None)

    assert ("ok", "2 GPUs on node 0-1") == (finding.status, finding.seen)
