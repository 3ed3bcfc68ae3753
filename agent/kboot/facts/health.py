"""What do the driver, the PCI bus and the kernel log tell of the GPUs' health?"""

from __future__ import annotations

import errno
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from kboot.facts.health_types import (
    Fabric,
    FabricManager,
    GpuHealth,
    HealthFacts,
    KernelEvent,
    PciHealth,
    RemappedRows,
)
from kboot.facts.kernel_events import kernel_events
from kboot.facts.reader import Reader, whole_number

if TYPE_CHECKING:
    from kboot.facts.basic_types import Gap
    from kboot.facts.gpu import Answers
    from kboot.host.types import Host

_PCI = "/sys/bus/pci/devices"
_VERSION = "/proc/driver/nvidia/version"
_BRIDGE_CLASS = "0x0680"
_NVIDIA = "0x10de"
_UNITS = "/sys/fs/cgroup/system.slice"
_FM_PROCS = f"{_UNITS}/nvidia-fabricmanager.service/cgroup.procs"
_FM_LOG = "/var/log/fabricmanager.log"
_FM_MISMATCH = re.compile(r"interface version (\d[\d.]*\d) don.?t match with driver version (\d[\d.]*\d)")
_HAS_NOT = ("NOT_SUPPORTED", "FUNCTION_NOT_FOUND", "INVALID_ARGUMENT", "ARGUMENT_VERSION_MISMATCH")
"""How a part or a driver says that it does not have a value; anything else is one that could not be read."""


def collect_health(
    host: Host, answers: Answers | OSError, pci_bus_ids: tuple[str, ...]
) -> tuple[HealthFacts, tuple[Gap, ...]]:
    """Read what tells of faults. answers: of NVML, or the error of asking it."""
    reader = Reader(host)
    listed = answers.get("gpus") if isinstance(answers, Mapping) else None
    seconds = answers.get("seconds") if isinstance(answers, Mapping) else None
    entries = [e for e in listed if isinstance(e, dict) and "error" not in e] if isinstance(listed, list) else []
    facts = HealthFacts(
        gpus=tuple(_gpu(reader, place, entry) for place, entry in enumerate(entries)),
        pci=tuple(_pci(reader, bus_id) for bus_id in pci_bus_ids),
        kernel_events=_kernel_events(reader),
        device_nodes=_device_nodes(reader),
        open_module=_open_module(reader),
        fabric_manager=_fabric_manager(reader) if pci_bus_ids else None,
        nvml_seconds=float(seconds) if isinstance(seconds, int | float) else None,
    )
    return facts, reader.gaps


def _gpu(reader: Reader, place: int, entry: Mapping[str, Any]) -> GpuHealth:
    told = entry.get("health")
    told = told if isinstance(told, dict) else {}
    index = entry.get("index", place)
    values: dict[str, Any] = {}
    refused: dict[str, str] = {}
    for name, value in told.items():
        reader_of = _READ.get(name)
        if reader_of is None or value is None:
            continue
        if isinstance(value, dict) and "error" in value:
            error = str(value["error"]).removeprefix("NVML_ERROR_")
            if error not in _HAS_NOT:
                refused[name] = error
            continue
        try:
            values |= reader_of(value)
        except (TypeError, ValueError, KeyError, IndexError, AttributeError):
            refused[name] = f"{value!r} is of no known form"
    for name, error in sorted(refused.items()):
        reader.gap(f"health.gpus.{index}.{name}", "NVML", error)
    return GpuHealth(index=index if isinstance(index, int) else place, refused=refused, **values)


def _fabric(value: Any) -> Fabric:
    unhealthy = tuple(str(each) for each in value.get("unhealthy", ()))
    return Fabric(
        str(value["state"]), str(value["status"]), int(value["clique_id"]), str(value["cluster_uuid"]), unhealthy
    )


def _as(name: str, form: Callable[[Any], Any]) -> Callable[[Any], dict[str, Any]]:
    return lambda value: {name: form(value)}


def _pair(value: Any) -> tuple[float, float]:
    first, second = value
    return float(first), float(second)


def _counts(value: Any) -> tuple[int, int]:
    first, second = value
    return int(first), int(second)


_READ: Mapping[str, Callable[[Any], dict[str, Any]]] = {
    "ecc": lambda value: {"ecc": bool(value[0]), "ecc_pending": bool(value[1])},
    "ecc_uncorrected": _as("ecc_uncorrected", _counts),
    "remapped": _as("remapped", lambda v: RemappedRows(int(v[0]), int(v[1]), bool(v[2]), bool(v[3]))),
    "fabric": _as("fabric", _fabric),
    "nvlinks": _as("nvlinks", lambda v: tuple(bool(each) for each in v)),
    "slowdown": _as("slowdown", lambda v: tuple(str(each) for each in v)),
    "power_w": _as("power_w", _pair),
    **{name: _as(name, bool) for name in ("persistence", "sram_threshold")},
    **{name: _as(name, int) for name in ("temperature_c", "memory_temperature_c", "slowdown_c", "bar1_bytes")},
    **{name: _as(name, str) for name in ("compute_mode", "recovery_action", "vbios", "virtualization")},
}


def _pci(reader: Reader, bus_id: str) -> PciHealth:
    folder = f"{_PCI}/{bus_id}"
    widths = [whole_number(reader.optional(f"{folder}/{name}_link_width") or "") for name in ("current", "max")]
    speeds = [_speed(reader.optional(f"{folder}/{name}_link_speed") or "") for name in ("current", "max")]
    return PciHealth(
        bus_id=bus_id,
        width=(widths[0], widths[1]) if widths[0] and widths[1] and max(widths[0], widths[1]) <= 32 else None,
        speed_gt_s=(speeds[0], speeds[1]) if speeds[0] and speeds[1] else None,
        aer=_aer(reader, folder),
        iommu=(reader.optional(f"{folder}/iommu_group/type") or "").strip(),
    )


def _speed(text: str) -> float | None:
    """Return the number of "16.0 GT/s PCIe"; None of "Unknown", which virtual machines say."""
    match = re.match(r"(\d+(?:\.\d+)?) GT/s", text.strip())
    return float(match.group(1)) if match else None


def _aer(reader: Reader, folder: str) -> Mapping[str, int]:
    """Return the sums of the error counters; empty where the device or this machine has none."""
    found: dict[str, int] = {}
    for name in ("fatal", "nonfatal", "correctable"):
        match = re.search(
            r"^TOTAL_ERR_\w+ (\d{1,20})$", reader.optional(f"{folder}/aer_dev_{name}") or "", re.MULTILINE
        )
        if match:
            found[name] = int(match.group(1))
    return found


def _kernel_events(reader: Reader) -> tuple[KernelEvent, ...] | None:
    """Return the faults in the kernel log. A recording without one is no gap: nobody asked that machine."""
    try:
        return kernel_events(reader.host.kernel_log())
    except OSError as exc:
        if reader.host.live or exc.errno != errno.ENOENT:
            reader.gap("health.kernel_events", "/dev/kmsg", exc)
        return None


def _device_nodes(reader: Reader) -> tuple[str, ...] | None:
    names = reader.names("/dev")
    return tuple(name for name in names if name.startswith("nvidia") or name == "dxg") if names else None


def _open_module(reader: Reader) -> bool | None:
    """Return whether the loaded module is the open one; both write their name into the version line."""
    text = reader.optional(_VERSION)
    return None if not text else "Open Kernel Module" in text


def _fabric_manager(reader: Reader) -> FabricManager:
    bridges = [
        name
        for name in reader.names(_PCI)
        if (reader.optional(f"{_PCI}/{name}/vendor") or "").strip() == _NVIDIA
        and (reader.optional(f"{_PCI}/{name}/class") or "").startswith(_BRIDGE_CLASS)
    ]
    said = _FM_MISMATCH.findall(reader.optional(_FM_LOG) or "")
    return FabricManager(
        switches=len(bridges),
        running=bool((reader.optional(_FM_PROCS) or "").strip()) if reader.host.exists(_UNITS) else None,
        versions=said[-1] if said else None,
    )
