"""Machines from public bug reports, read by the collectors."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from kboot.facts.gpu import normal_bus_id
from kboot.facts.types import Gap, NodeFacts
from kboot.facts.visible import usable_gpus, visible_devices, why_not_clear
from nodes.plugin import facts_of

CASES = Path(__file__).parents[1] / "cases"


def case_root(name: str, tmp_path: Path, nvml: object = None) -> Path:
    """Return a tree of the case's `fs/` with its nvml.json (or `nvml`) beside."""
    root = tmp_path / name
    if (CASES / name / "fs").is_dir():
        shutil.copytree(CASES / name / "fs", root)
    else:
        root.mkdir()
    if nvml is not None:
        (root / "nvml.json").write_text(json.dumps(nvml))
    elif (CASES / name / "nvml.json").is_file():
        shutil.copy(CASES / name / "nvml.json", root)
    return root


def reasons(facts: NodeFacts, fact: str) -> list[str]:
    """Return why a fact is missing."""
    return [gap.reason for gap in facts.gaps if gap.fact == fact]


def test_gpu_memory_nodes_are_told_as_nodes_without_cpus(tmp_path: Path) -> None:
    """B075: NVML's node of GPU 0 is 2, which has no CPUs; the CPUs near it are those of node 0."""
    facts = facts_of(case_root("B075", tmp_path))

    empty = {node.number for node in facts.numa if not node.cpus}
    assert {2, 10, 18, 26} == empty
    assert [(0, 2), (2, 18)] == [(gpu.index, gpu.numa_node) for gpu in facts.gpu.gpus]
    assert [{0}, {1}] == [{facts.cpu.node_of[cpu] for cpu in gpu.cpu_affinity or ()} for gpu in facts.gpu.gpus]
    assert 80 == facts.numa[2].distances[0] < facts.numa[2].distances[1]


def test_locality_that_the_machine_does_not_tell_is_unknown(tmp_path: Path) -> None:
    """B077: numa_node -1 is no node, neither -1 nor 0."""
    gpus = [{"index": n, "bus_id": f"00000000:00:{n + 4:02X}.0"} for n in range(2)]
    facts = facts_of(case_root("B077", tmp_path, {"gpus": gpus}))

    assert [None, None] == [gpu.numa_node for gpu in facts.gpu.gpus]
    assert ["-1: the machine does not say"] == reasons(facts, "gpu.gpus.1.numa_node")
    assert ("0000:00:04.0", "0000:00:05.0") == facts.gpu.pci_bus_ids
    assert (32, {0, 1}) == (len(facts.cpu.allowed), set(facts.cpu.node_of.values()))


def test_cpus_that_are_off_are_in_no_list(tmp_path: Path) -> None:
    """B085: 62 CPUs, the highest is 63, and 10 and 11 are not among them."""
    facts = facts_of(case_root("B085", tmp_path))

    assert (62, True, False) == (
        len(facts.cpu.online),
        63 in facts.cpu.allowed,
        bool({10, 11} & {*facts.cpu.online, *facts.cpu.allowed, *facts.cpu.node_of}),
    )


def test_the_number_of_cpus_is_the_length_of_the_list(tmp_path: Path) -> None:
    """B087: with SMT off, 20 CPUs are online although lscpu counts 160 and the highest number is 152."""
    root = case_root("B087", tmp_path)
    masks = {
        name: [bit for bit in range(160) if int(mask, 16) >> bit & 1]
        for name, mask in re.findall(
            r"^(On-line|NUMA node\d).*(0x[0-9a-f]+)$", (CASES / "B087/lscpu-x.txt").read_text(), re.M
        )
    }
    system = root / "sys/devices/system"
    for name in ("cpu", "node/node0", "node/node1"):
        (system / name).mkdir(parents=True)
    (system / "cpu/online").write_text(",".join(map(str, masks["On-line"])))
    (system / "node/online").write_text("0-1")
    for number in (0, 1):
        (system / f"node/node{number}/cpulist").write_text(",".join(map(str, masks[f"NUMA node{number}"])))

    facts = facts_of(root)

    assert (20, 152) == (len(facts.cpu.online), max(facts.cpu.online))
    assert [10, 10] == [len(node.cpus) for node in facts.numa]


def test_a_mig_uuid_in_the_environment_names_its_slice(tmp_path: Path) -> None:
    """B088: the entry is resolved to its parent GPU and profile, as `nvidia-smi -L` lists them."""
    listing = (CASES / "B088/nvidia-smi-L.txt").read_text()
    gpus: list[dict[str, object]] = []
    for line in listing.splitlines():
        if gpu := re.match(r"GPU (\d+): (.+) \(UUID: (\S+)\)", line):
            gpus.append(
                {"index": int(gpu[1]), "name": gpu[2], "uuid": gpu[3], "mig": "MIG" in listing, "instances": []}
            )
        elif mig := re.match(r"\s+MIG (\S+)\s+Device\s+(\d+): \(UUID: (\S+)\)", line):
            instances = gpus[-1]["instances"]
            assert isinstance(instances, list)
            instances.append({"name": mig[1], "uuid": mig[3], "gi": 3 + int(mig[2]), "ci": 0, "mem_total": 20 << 30})
    value = (CASES / "B088/env").read_text().strip().partition("=")[2]
    found = facts_of(case_root("B088", tmp_path, {"gpus": gpus})).gpu.gpus

    seen = visible_devices(value, found)

    assert ([(0, "2g.20gb")], ()) == (
        [(d.gpu.index, d.slice.profile if d.slice else "") for d in seen.devices],
        seen.unknown,
    )
    assert [(0, "1g.10gb")] == [
        (d.gpu.index, d.slice.profile if d.slice else "")
        for d in visible_devices(f"MIG-{found[0].uuid}/4/0", found).devices
    ]
    assert [0, 1] == [d.gpu.index for d in visible_devices("0, GPU-bbbb", found).devices]
    assert ("7", "MIG-", "GPU-") == visible_devices("7,MIG-,GPU-", found).unknown


@pytest.mark.parametrize("value", ["0,0", "0,GPU-a", "1,0,1"])
def test_a_device_named_twice_leaves_none(value: str, tmp_path: Path) -> None:
    """As CUDA has it, and torch after it (_parse_visible_devices): nobody gets one GPU for two workers."""
    gpus = [{"index": n, "uuid": f"GPU-{letter}"} for n, letter in enumerate("ab")]
    found = facts_of(case_root("B092", tmp_path, {"gpus": gpus})).gpu.gpus

    assert ((), 1) == (visible_devices(value, found).devices, len(visible_devices(value, found).repeated))
    assert "a second time" in why_not_clear(value, None, found)


def test_a_visible_slice_stands_as_a_gpu(tmp_path: Path) -> None:
    """B088, B090: a worker on a slice has its parent's index, its own UUID and its own memory."""
    gpu = facts_of(case_root("B090", tmp_path)).gpu
    (mig,) = gpu.gpus[0].mig_slices

    (usable,) = usable_gpus(replace(gpu, visible=mig.uuid))

    assert (0, mig.uuid, 20 << 30) == (usable.index, usable.uuid, usable.memory_total_bytes)
    assert gpu.gpus == usable_gpus(gpu)
    assert () == usable_gpus(replace(gpu, visible=""))


def test_numbers_of_mixed_models_are_not_clear(tmp_path: Path) -> None:
    """B092: CUDA's 0 is the fastest card, NVML's 0 the first on the bus; by UUID or by bus order it is clear."""
    gpus = facts_of(case_root("B092", tmp_path)).gpu.gpus

    assert "models are mixed" in why_not_clear("0", None, gpus)
    assert "" == why_not_clear("0", "PCI_BUS_ID", gpus)
    assert "" == why_not_clear(gpus[-1].uuid, None, gpus)
    assert "GPU-nowhere names nothing here; CUDA ignores it and all that follow" == why_not_clear(
        f"{gpus[0].uuid},GPU-nowhere,0", None, gpus
    )
    assert [gpus[0]] == [d.gpu for d in visible_devices(f"{gpus[0].uuid},GPU-nowhere,0", gpus).devices]


def test_a_slice_has_its_own_memory(tmp_path: Path) -> None:
    """B090: 20 GiB of the slice stand beside the 40 of its parent."""
    (gpu,) = facts_of(case_root("B090", tmp_path)).gpu.gpus

    assert (True, 40 << 30, [20 << 30]) == (
        gpu.mig,
        gpu.memory_total_bytes,
        [mig_slice.memory_total_bytes for mig_slice in gpu.mig_slices],
    )


def test_a_part_without_memory_of_its_own_has_the_machines(tmp_path: Path) -> None:
    """B093: GB10's memory is MemTotal, and what is not available of it is used."""
    facts = facts_of(case_root("B093", tmp_path))

    (gpu,) = facts.gpu.gpus
    assert (True, "000f:01:00.0", 127600748 * 1024, (127600748 - 118566368) * 1024) == (
        gpu.unified,
        gpu.bus_id,
        gpu.memory_total_bytes,
        gpu.memory_used_bytes,
    )


def test_a_discrete_gpu_with_the_same_answer_stays_unknown(tmp_path: Path) -> None:
    """B093: only a part known to have no memory of its own is given the machine's."""
    nvml = {"gpus": [{"index": 0, "name": "NVIDIA L4", "mem": {"error": "NOT_SUPPORTED"}}]}
    facts = facts_of(case_root("B093", tmp_path, nvml))

    (gpu,) = facts.gpu.gpus
    assert (False, None, None) == (gpu.unified, gpu.memory_total_bytes, gpu.memory_used_bytes)
    assert ["NOT_SUPPORTED"] == reasons(facts, "gpu.gpus.0.memory_total_bytes")


def test_one_lost_gpu_leaves_three_and_its_bus_id(tmp_path: Path) -> None:
    """B095: index 1 is a gap, the others are whole, and the bus knows which one is missing."""
    root = case_root("B095", tmp_path)
    for bus_id in ("0000:0a:00.0", "0000:0b:00.0", "0000:42:00.0", "0000:43:00.0"):
        folder = root / "sys/bus/pci/devices" / bus_id
        folder.mkdir(parents=True)
        (folder / "vendor").write_text("0x10de\n")
        (folder / "class").write_text("0x030200\n")

    facts = facts_of(root)

    assert [(0, "0000:0a:00.0"), (2, "0000:42:00.0"), (3, "0000:43:00.0")] == [
        (gpu.index, gpu.bus_id) for gpu in facts.gpu.gpus
    ]
    assert ["GPU_IS_LOST"] == reasons(facts, "gpu.gpus.1")
    assert ["on the PCI bus, but not among the 3 GPUs of NVML"] == reasons(facts, "gpu.pci.0000:0b:00.0")


def test_a_replaced_library_is_its_own_state_with_both_versions(tmp_path: Path) -> None:
    """B097: loaded module and library differ; the fact says which is which and what helps."""
    nvml = {"nvml_init": (CASES / "B097/nvml_init").read_text().strip(), "library": "550.107"}
    facts = facts_of(case_root("B097", tmp_path, nvml))

    assert ("mismatch", "550.90.07") == (facts.gpu.nvml, facts.gpu.driver_version)
    assert "loaded module 550.90.07, library 550.107: reload the driver or reboot" == facts.gpu.detail
    assert Gap("gpu.gpus", "NVML", "LIB_RM_VERSION_MISMATCH; the PCI bus lists 0 NVIDIA GPUs") in facts.gaps


@pytest.mark.parametrize(("text", "expected"), json.loads((CASES / "B100/ids.json").read_text()))
def test_every_spelling_of_a_bus_id_is_sysfs_own(text: str, expected: str) -> None:
    """B100: NVML's eight digits, sysfs' four, and domains that are not zero."""
    assert expected == normal_bus_id(text)


def test_a_failed_read_is_not_a_node(tmp_path: Path) -> None:
    """B100: a GPU whose device sysfs does not have has no node, and the gap says what was asked."""
    facts = facts_of(case_root("B100", tmp_path, {"gpus": [{"index": 0, "bus_id": "00000000:3B:00.0"}]}))

    assert facts.gpu.gpus[0].numa_node is None
    assert Gap("gpu.gpus.0.numa_node", "/sys/bus/pci/devices/0000:3b:00.0/numa_node", "not readable") in facts.gaps
