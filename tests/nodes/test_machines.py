"""The collectors on whole machines: generated ones of known shapes, and two recorded ones."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kboot.cpulist import format_cpu_list
from kboot.facts.render import facts_to_json
from kboot.facts.types import Gap, NodeFacts
from nodes.generate import as_list
from nodes.machines import MACHINES
from nodes.plugin import RECORDED_NAMES, MachineFacts, MachineRoot, facts_of

CASES = Path(__file__).parents[1] / "cases"


def shape(facts: NodeFacts) -> tuple[int, int, int, int]:
    """Return online CPUs, cores, nodes with CPUs, GPUs."""
    cores = set(facts.cpu.core_of.values())
    return len(facts.cpu.online), len(cores), sum(bool(n.cpus) for n in facts.numa), len(facts.gpu.gpus)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("hgx-h100", (224, 112, 2, 8)),
        ("b300", (192, 96, 2, 8)),
        ("gb200", (144, 144, 2, 4)),
        ("epyc-nps4-a100", (256, 128, 8, 8)),
        ("vm-no-locality", (32, 32, 2, 4)),
        ("container-cpuset", (192, 96, 2, 2)),
        ("adjacent-offline", (48, 24, 2, 2)),
        ("no-gpu", (2, 2, 1, 0)),
        ("h200x2", (32, 32, 1, 2)),
        ("vm", (2, 2, 1, 0)),
    ],
)
def test_counts_of_every_machine(machine_facts: MachineFacts, name: str, expected: tuple[int, int, int, int]) -> None:
    """CPUs, cores, NUMA nodes and GPUs are those of the machine's data sheet."""
    assert expected == shape(machine_facts(name))


def test_locality_is_not_read_from_a_printed_table(machine_facts: MachineFacts) -> None:
    """B074: `nvidia-smi topo -m` runs columns together on this kind of machine; NVML and sysfs tell node and CPUs."""
    table = (CASES / "B074/nvidia-smi-topo.txt").read_text().splitlines()
    wanted = json.loads((CASES / "B074/case.json").read_text())["expect"]
    gpus = machine_facts("hgx-h100").gpu.gpus

    assert "NIC2NIC3" in table[0] and "SYSSYS" in table[1], "the header's columns are not those of the rows"
    assert [(gpu["numa"], gpu["cpus"]) for gpu in wanted.values()] == [
        (gpus[n].numa_node, format_cpu_list(gpus[n].cpu_affinity or ())) for n in (0, -1)
    ]


@pytest.mark.parametrize("name", sorted((*MACHINES, *RECORDED_NAMES)))
def test_every_online_cpu_has_a_core_and_a_node(machine_facts: MachineFacts, name: str) -> None:
    """No CPU is invented and none forgotten."""
    cpu = machine_facts(name).cpu

    assert set(cpu.online) == set(cpu.core_of) == set(cpu.node_of)
    assert set(cpu.allowed) <= set(cpu.online)


def test_hgx_h100(machine_facts: MachineFacts) -> None:
    """Siblings are n and n+112; four GPUs a socket; everything was readable."""
    facts = machine_facts("hgx-h100")

    assert ["0-55,112-167", "56-111,168-223"] == [as_list(node.cpus) for node in facts.numa]
    assert facts.cpu.core_of[5] == facts.cpu.core_of[117] != facts.cpu.core_of[6]
    assert [0, 0, 0, 0, 1, 1, 1, 1] == [gpu.numa_node for gpu in facts.gpu.gpus]
    assert {"performance"} == set(facts.cpu.governor_of.values())
    assert ("580.159.04", "13.0", (9, 0)) == (
        facts.gpu.driver_version,
        facts.gpu.cuda_version,
        facts.gpu.gpus[0].compute_capability,
    )
    assert {gpu.bus_id for gpu in facts.gpu.gpus} == set(facts.gpu.pci_bus_ids)
    assert () == facts.gaps


def test_gb200_memory_nodes_have_no_cpus(machine_facts: MachineFacts) -> None:
    """Node numbers have holes; each GPU is near its Grace, and wide PCI domains are kept."""
    facts = machine_facts("gb200")

    assert {0: 72, 1: 72, 2: 0, 10: 0, 18: 0, 26: 0} == {node.number: len(node.cpus) for node in facts.numa}
    assert {0: 80, 1: 120, 2: 10, 10: 120, 18: 120, 26: 120} | {10: 80} == dict(facts.numa[2].distances)
    assert [("0008:01:00.0", 0), ("0009:01:00.0", 0), ("0018:01:00.0", 1), ("0019:01:00.0", 1)] == [
        (gpu.bus_id, gpu.numa_node) for gpu in facts.gpu.gpus
    ]
    assert ("aarch64", ("cpu.model",)) == (facts.os.machine, tuple(gap.fact for gap in facts.gaps))


def test_epyc_gpu_order_is_not_node_order(machine_facts: MachineFacts) -> None:
    """GPU 0 sits on node 3, and the even nodes have none."""
    facts = machine_facts("epyc-nps4-a100")

    assert [3, 3, 1, 1, 7, 7, 5, 5] == [gpu.numa_node for gpu in facts.gpu.gpus]
    assert "48-63,176-191" == as_list(facts.gpu.gpus[0].cpu_affinity or ())
    assert facts.numa[3].cpus == facts.gpu.gpus[0].cpu_affinity
    assert {"schedutil"} == set(facts.cpu.governor_of.values())


def test_a_virtual_machine_that_does_not_say_where_its_gpus_are(machine_facts: MachineFacts) -> None:
    """B077: -1 is "not known", with a gap for each GPU."""
    facts = machine_facts("vm-no-locality")

    assert [None] * 4 == [gpu.numa_node for gpu in facts.gpu.gpus]
    assert [f"gpu.gpus.{n}.numa_node" for n in range(4)] == [gap.fact for gap in facts.gaps]


def test_a_container_may_use_less_than_it_sees(machine_facts: MachineFacts) -> None:
    """B079: allowed is what cpuset and affinity leave; NVML's CPUs may lie outside."""
    facts = machine_facts("container-cpuset")

    assert (tuple(range(8, 24)), 10.5, "docker") == (facts.cpu.allowed, facts.cpu.quota_cpus, facts.os.container)
    assert not set(facts.cpu.allowed) & set(facts.gpu.gpus[1].cpu_affinity or ())


def test_siblings_side_by_side_and_cpus_switched_off(machine_facts: MachineFacts) -> None:
    """CPU 11 is off, CPU 0 and 1 share a core, and no list mentions a CPU that is off."""
    cpu = machine_facts("adjacent-offline").cpu

    assert "0-9,12-49" == as_list(cpu.online) == as_list(cpu.allowed)
    assert cpu.core_of[0] == cpu.core_of[1] != cpu.core_of[2]


def test_no_gpu_is_a_fact(machine_facts: MachineFacts) -> None:
    """An image builder has no library, no device and no gap."""
    facts = machine_facts("no-gpu")

    assert ("no-library", (), ()) == (facts.gpu.nvml, facts.gpu.gpus, facts.gpu.pci_bus_ids)
    assert () == facts.gaps


def test_the_recorded_h200_node(machine_facts: MachineFacts) -> None:
    """What that node's own tools printed: sizes, affinity, engine, limits."""
    facts = machine_facts("h200x2")

    gpu = facts.gpu.gpus[0]
    assert ("NVIDIA H200", "0000:00:06.0", 150754820096, 644939776, None, tuple(range(32))) == (
        gpu.name,
        gpu.bus_id,
        gpu.memory_total_bytes,
        gpu.memory_used_bytes,
        gpu.numa_node,
        gpu.cpu_affinity,
    )
    assert ("vllm", "0.26.0", "/opt/venv/bin/python3", "2.11.0+cu130") == (
        facts.engine.name,
        facts.engine.version,
        facts.engine.interpreter,
        facts.engine.packages["torch"],
    )
    assert ((20000, 20000), (None, None)) == (facts.limits.nofile, facts.limits.memlock_bytes)
    assert [("/", "ext4", 128 << 30)] * 3 == [(m.mount_point, m.fs_type, m.free_bytes) for m in facts.mounts]


def test_the_recorded_vm(machine_facts: MachineFacts) -> None:
    """A small VM with cgroup v1: complete facts, and not one gap."""
    facts = machine_facts("vm")

    assert ((0, 1), None, None) == (facts.cpu.allowed, facts.cpu.quota_cpus, facts.memory.limit_bytes)
    assert ("Debian GNU/Linux 12 (bookworm)", 1796046420.0) == (facts.os.pretty_name, facts.os.boot_unix_s)
    assert () == facts.gaps


def test_an_empty_tree_gives_gaps_and_no_exception(tmp_path: Path) -> None:
    """Every fact that is not there is named with its source; nothing is made up."""
    facts = facts_of(tmp_path)

    assert ((), (), ()) == (facts.cpu.online, facts.numa, facts.gpu.gpus)
    assert {"cpu.online", "numa", "memory", "limits", "os.hostname", "os.boot_id", "mounts"} <= {
        gap.fact for gap in facts.gaps
    }
    assert Gap("cpu.online", "/sys/devices/system/cpu/online", "No such file or directory") in facts.gaps


def test_facts_of_one_tree_are_the_same_every_time(machine: MachineRoot) -> None:
    """Order never depends on the file system or on threads."""
    root = machine("b300")
    first, second = (facts_to_json(facts_of(root)) for _ in range(2))

    assert first | {"collected_unix_s": 0} == second | {"collected_unix_s": 0}
