"""What does NVML say of one GPU's health? Runs in the NVML child; every value or {"error": NAME}."""

from __future__ import annotations

from ctypes import byref
from typing import Any

from kboot.host.nvml_ask import ask_value, code_name, text

_MOST_LINKS = 18
_STATES = ("not-supported", "not-started", "in-progress", "completed")
_COMPUTE_MODES = ("default", "exclusive-thread", "prohibited", "exclusive-process")
_RECOVERY = ("none", "gpu-reset", "node-reboot", "drain-p2p", "drain-and-reset", "imex-domain", "bus-reset", "reboot")
_VIRTUALIZATION = ("none", "passthrough", "vgpu", "host-vgpu", "host-vsga")
_REASONS = {
    1 << 1: "clocks-setting",
    1 << 2: "sw-power-cap",
    1 << 3: "hw-slowdown",
    1 << 5: "sw-thermal",
    1 << 6: "hw-thermal",
    1 << 7: "power-brake",
}
_MASK_TRUE_IS_BAD = {"degraded-bandwidth": 0, "route-recovery": 2, "route-unhealthy": 4, "access-timeout": 6}
_CONFIGURATION_SHIFT = 8


def gpu_health(nvml: Any, handle: Any) -> dict[str, Any]:
    """Return the values by name, as nvml.json has them under "health"."""
    device = "nvmlDevice"
    power = (f"{device}GetEnforcedPowerLimit", f"{device}GetPowerManagementDefaultLimit")
    questions = {
        "persistence": lambda: bool(nvml.nvmlDeviceGetPersistenceMode(handle)),
        "ecc": lambda: [bool(mode) for mode in nvml.nvmlDeviceGetEccMode(handle)],
        "ecc_uncorrected": lambda: [_uncorrected(nvml, handle, counter) for counter in (0, 1)],
        "sram_threshold": lambda: _sram_threshold(nvml, handle),
        "remapped": lambda: [int(value) for value in nvml.nvmlDeviceGetRemappedRows(handle)],
        "fabric": lambda: _fabric(nvml, handle),
        "nvlinks": lambda: _links(nvml, handle),
        "slowdown": lambda: _reasons(nvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle)),
        "power_w": lambda: [getattr(nvml, name)(handle) / 1000 for name in power],
        "temperature_c": lambda: int(nvml.nvmlDeviceGetTemperature(handle, 0)),
        "memory_temperature_c": lambda: _field(nvml, handle, nvml.NVML_FI_DEV_MEMORY_TEMP),
        "slowdown_c": lambda: int(nvml.nvmlDeviceGetTemperatureThreshold(handle, 1)),
        "compute_mode": lambda: _word(_COMPUTE_MODES, nvml.nvmlDeviceGetComputeMode(handle)),
        "recovery_action": lambda: _word(_RECOVERY, _field(nvml, handle, nvml.NVML_FI_DEV_GET_GPU_RECOVERY_ACTION)),
        "bar1_bytes": lambda: int(nvml.nvmlDeviceGetBAR1MemoryInfo(handle).bar1Total),
        "vbios": lambda: text(nvml.nvmlDeviceGetVbiosVersion(handle)),
        "virtualization": lambda: _word(_VIRTUALIZATION, nvml.nvmlDeviceGetVirtualizationMode(handle)),
    }
    return {name: ask_value(nvml, question) for name, question in questions.items()}


def _uncorrected(nvml: Any, handle: Any, counter: int) -> int:
    return int(nvml.nvmlDeviceGetTotalEccErrors(handle, nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, counter))


def _sram_threshold(nvml: Any, handle: Any) -> bool:
    status = nvml.c_nvmlEccSramErrorStatus_v1_t()
    nvml.nvmlDeviceGetSramEccErrorStatus(handle, byref(status))
    return bool(status.bThresholdExceeded)


def _fabric(nvml: Any, handle: Any) -> dict[str, Any]:
    info = nvml.c_nvmlGpuFabricInfo_v2_t()
    nvml.nvmlDeviceGetGpuFabricInfoV(handle, byref(info))
    uuid = bytes(info.clusterUuid).hex()
    return {
        "state": _word(_STATES, info.state),
        "status": code_name(nvml, info.status),
        "clique_id": int(info.cliqueId),
        "cluster_uuid": "-".join((uuid[:8], uuid[8:12], uuid[12:16], uuid[16:20], uuid[20:])),
        "unhealthy": _unhealthy(int(info.healthMask)),
    }


def _unhealthy(mask: int) -> list[str]:
    """Return the fields of the health mask that say "bad"; 1 is "true" in the two-bit ones, 0 "not supported"."""
    bad = [name for name, shift in _MASK_TRUE_IS_BAD.items() if mask >> shift & 3 == 1]
    configuration = mask >> _CONFIGURATION_SHIFT & 15
    return [*bad, f"configuration-{configuration}"] if configuration > 1 else bad


def _links(nvml: Any, handle: Any) -> list[bool]:
    """Return the state of each link; a part without NVLink refuses link 0, one with fewer the first that it lacks."""
    found: list[bool] = []
    for link in range(_MOST_LINKS):
        try:
            found.append(bool(nvml.nvmlDeviceGetNvLinkState(handle, link)))
        except nvml.NVMLError as exc:
            if exc.value in (nvml.NVML_ERROR_NOT_SUPPORTED, nvml.NVML_ERROR_INVALID_ARGUMENT):
                break
            raise
    return found


def _reasons(mask: int) -> list[str]:
    return [name for bit, name in _REASONS.items() if mask & bit]


def _field(nvml: Any, handle: Any, field_id: int) -> int:
    """Return one field value.

    Raises:
        NVMLError: the part or the driver does not know it.
    """
    value = nvml.nvmlDeviceGetFieldValues(handle, [field_id])[0]
    if value.nvmlReturn:
        raise nvml.NVMLError(value.nvmlReturn)
    return int(value.value.uiVal)


def _word(words: tuple[str, ...], number: int) -> str:
    return words[number] if 0 <= number < len(words) else f"code-{number}"
