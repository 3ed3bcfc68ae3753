"""What NVML, the PCI bus and the kernel log say becomes values, and what they refuse becomes a Gap."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from kboot.facts.health import collect_health
from kboot.facts.health_types import Fabric, FabricManager, GpuHealth, PciHealth, RemappedRows
from kboot.facts.kernel_events import kernel_events
from kboot.facts.types import Gap
from kboot.host.recorded import RecordedHost

BUS = "0000:0a:00.0"
PCI = f"sys/bus/pci/devices/{BUS}"
ZERO = "00000000-0000-0000-0000-000000000000"
TOLD: dict[str, Any] = {
    "persistence": True,
    "ecc": [True, True],
    "ecc_uncorrected": [0, 2],
    "sram_threshold": {"error": "FUNCTION_NOT_FOUND"},
    "remapped": [0, 4, 1, 0],
    "fabric": {"state": "completed", "status": "SUCCESS", "clique_id": 0, "cluster_uuid": ZERO, "unhealthy": []},
    "nvlinks": [True, False],
    "slowdown": ["sw-power-cap"],
    "power_w": [650.0, 700.0],
    "temperature_c": 34,
    "memory_temperature_c": {"error": "NOT_SUPPORTED"},
    "slowdown_c": 87,
    "compute_mode": "default",
    "recovery_action": {"error": "GPU_IS_LOST"},
    "bar1_bytes": 1 << 37,
    "vbios": "96.00",
    "virtualization": "none",
    "of a later version": 7,
}


def tree(root: Path, files: dict[str, str]) -> RecordedHost:
    """Write a recorded machine."""
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(f"{text}\n")
    return RecordedHost(root)


def test_every_value_of_a_gpu_is_read(tmp_path: Path) -> None:
    """What a part does not have is None without a Gap; what it should have and refuses is a Gap."""
    answers = {"nvml_init": "OK", "seconds": 0.4, "gpus": [{"index": 3, "health": TOLD}, {"error": "GPU_IS_LOST"}]}
    facts, gaps = collect_health(tree(tmp_path, {"proc/x": ""}), answers, (BUS,))

    assert (
        GpuHealth(
            index=3,
            persistence=True,
            ecc=True,
            ecc_pending=True,
            ecc_uncorrected=(0, 2),
            remapped=RemappedRows(0, 4, pending=True, failure=False),
            fabric=Fabric("completed", "SUCCESS", 0, ZERO),
            nvlinks=(True, False),
            slowdown=("sw-power-cap",),
            power_w=(650.0, 700.0),
            temperature_c=34,
            slowdown_c=87,
            compute_mode="default",
            bar1_bytes=1 << 37,
            vbios="96.00",
            virtualization="none",
            refused={"recovery_action": "GPU_IS_LOST"},
        ),
    ) == facts.gpus
    assert (Gap("health.gpus.3.recovery_action", "NVML", "GPU_IS_LOST"),) == gaps
    assert 0.4 == facts.nvml_seconds


def test_the_bus_tells_of_width_errors_and_translation(tmp_path: Path) -> None:
    """Counters are the totals; a virtual machine's "Unknown" speed and width 0 are None."""
    host = tree(
        tmp_path,
        {
            f"{PCI}/current_link_width": "8",
            f"{PCI}/max_link_width": "16",
            f"{PCI}/current_link_speed": "2.5 GT/s PCIe",
            f"{PCI}/max_link_speed": "32.0 GT/s PCIe",
            f"{PCI}/aer_dev_fatal": "Undefined 0\nTOTAL_ERR_FATAL 2",
            f"{PCI}/aer_dev_correctable": "RxErr 5\nTOTAL_ERR_COR 5",
            f"{PCI}/iommu_group/type": "DMA-FQ",
            "sys/bus/pci/devices/0000:0b:00.0/current_link_width": "0",
            "sys/bus/pci/devices/0000:0b:00.0/current_link_speed": "Unknown",
        },
    )
    facts, gaps = collect_health(host, {}, (BUS, "0000:0b:00.0"))

    assert (
        PciHealth(BUS, (8, 16), (2.5, 32.0), {"fatal": 2, "correctable": 5}, "DMA-FQ"),
        PciHealth("0000:0b:00.0", None, None, {}, ""),
    ) == facts.pci
    assert () == gaps


def test_the_machine_tells_of_module_devices_log_and_fabric_manager(tmp_path: Path) -> None:
    """The open module's version line, /dev, dmesg.txt of a recording, NVSwitches and the manager's last complaint."""
    switch = "sys/bus/pci/devices/0000:05:00.0"
    host = tree(
        tmp_path,
        {
            "proc/driver/nvidia/version": "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release",
            "dev/nvidia0": "",
            "dev/nvidiactl": "",
            "dev/null": "",
            "dmesg.txt": "[ 9.0] NVRM: Xid (PCI:0000:0a:00): 48, pid=1",
            f"{switch}/vendor": "0x10de",
            f"{switch}/class": "0x068000",
            "var/log/fabricmanager.log": "interface version 550.90.07 don't match with driver version 550.54.15.",
        },
    )
    facts, _ = collect_health(host, {}, (BUS,))

    assert (True, ("nvidia0", "nvidiactl")) == (facts.open_module, facts.device_nodes)
    assert FabricManager(1, running=None, versions=("550.90.07", "550.54.15")) == facts.fabric_manager
    assert [("xid", BUS, 48)] == [(e.kind, e.bus_id, e.code) for e in facts.kernel_events or ()]


def test_a_machine_without_gpus_has_no_health_and_no_gap(tmp_path: Path) -> None:
    """Nothing is asked, nothing is missing."""
    facts, gaps = collect_health(tree(tmp_path, {"proc/x": ""}), {"nvml_init": "LIBRARY_NOT_FOUND"}, ())

    assert ((), (), None, None, ()) == (facts.gpus, facts.pci, facts.kernel_events, facts.fabric_manager, gaps)


@given(st.dictionaries(st.sampled_from(sorted(TOLD)), st.recursive(st.none() | st.integers() | st.text(), st.lists)))
def test_no_answer_whatever_raises(health: dict[str, Any]) -> None:
    """A driver that answers nonsense is a Gap of that value."""
    collect_health(RecordedHost(Path("/nowhere")), json.loads(json.dumps({"gpus": [{"health": health}]})), ())


@given(st.text())
def test_no_log_whatever_raises(text: str) -> None:
    """Every text is a kernel log."""
    assert all(e.text for e in kernel_events(text))


def test_tasks_that_hang_and_modules_that_are_refused_are_told(tmp_path: Path) -> None:
    """The pid of a hung task is its code; a module whose missing signature only taints the kernel was loaded."""
    log = (
        "[ 246.1] INFO: task kworker/u8:2:71 blocked for more than 122 seconds.\n"
        "[ 247.2] Loading of unsigned module is rejected\n"
        "[ 248.3] Lockdown: modprobe: unsigned module loading is restricted; see man kernel_lockdown.7\n"
        "[ 249.4] nvidia: module verification failed: signature and/or required key missing - tainting kernel\n"
    )

    assert [("hung-task", 71, 246.1), ("module-refused", 0, 247.2), ("module-refused", 0, 248.3)] == [
        (e.kind, e.code, e.at_s) for e in kernel_events(log)
    ]
