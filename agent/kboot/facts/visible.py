"""Which GPUs or slices may be used, as CUDA_VISIBLE_DEVICES says?"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from kboot.facts.reader import whole_number
from kboot.values import dataclass

if TYPE_CHECKING:
    from kboot.facts.types import Gpu, GpuFacts, MigSlice


@dataclass(frozen=True, slots=True)
class VisibleDevice:
    """One entry, resolved. slice: None for a whole GPU."""

    entry: str
    gpu: Gpu
    slice: MigSlice | None


@dataclass(frozen=True, slots=True)
class VisibleDevices:
    """devices: those before the first entry that names nothing here, for CUDA ignores that one and all that follow.

    unknown: all entries that name nothing. repeated: entries that name a device again; then CUDA has none at all.
    """

    devices: tuple[VisibleDevice, ...]
    unknown: tuple[str, ...]
    repeated: tuple[str, ...] = ()


def usable_gpus(gpu: GpuFacts) -> tuple[Gpu, ...]:
    """Return the GPUs that workers may have, in the order they are asked for; all of them where nothing is said.

    A MIG slice stands as a GPU of its own: the index and place of its parent, its own UUID and memory.
    """
    if gpu.visible is None:
        return gpu.gpus
    return tuple(_as_gpu(device) for device in visible_devices(gpu.visible, gpu.gpus).devices)


def visible_devices(value: str, gpus: Iterable[Gpu]) -> VisibleDevices:
    """Resolve a comma-separated list of indices, `GPU-…`, `MIG-…` and `MIG-GPU-…/gi/ci`; ids may be cut short.

    Forms: https://docs.nvidia.com/cuda/cuda-c-programming-guide/#env-vars and the MIG user guide.
    """
    known = tuple(gpus)
    devices: list[VisibleDevice] = []
    unknown: list[str] = []
    repeated: list[str] = []
    for entry in (part.strip() for part in value.split(",") if part.strip()):
        found = _resolve(entry, known)
        if found is None:
            unknown.append(entry)
        elif not unknown and any((d.gpu, d.slice) == (found.gpu, found.slice) for d in devices):
            repeated.append(entry)
        elif not unknown:
            devices.append(found)
    return VisibleDevices(() if repeated else tuple(devices), tuple(unknown), tuple(repeated))


def why_not_clear(value: str, device_order: str | None, gpus: Iterable[Gpu]) -> str:
    """Return why CUDA may see other GPUs than these entries name; empty where it is clear."""
    known = tuple(gpus)
    seen = visible_devices(value, known)
    if seen.repeated:
        return f"{', '.join(seen.repeated)} names a device a second time; CUDA has no device then"
    if seen.unknown:
        return f"{', '.join(seen.unknown)} names nothing here; CUDA ignores it and all that follow"
    numbered = any(part.strip().isdecimal() for part in value.split(","))
    if numbered and device_order != "PCI_BUS_ID" and len({gpu.name for gpu in known}) > 1:
        return "numbers mean other cards to CUDA than to NVML: models are mixed, CUDA_DEVICE_ORDER is not PCI_BUS_ID"
    return ""


def _as_gpu(device: VisibleDevice) -> Gpu:
    part = device.slice
    if part is None:
        return device.gpu
    return replace(device.gpu, uuid=part.uuid, memory_total_bytes=part.memory_total_bytes, mig_slices=(part,))


def _resolve(entry: str, gpus: tuple[Gpu, ...]) -> VisibleDevice | None:
    if entry.isdecimal():
        named = [VisibleDevice(entry, gpu, None) for gpu in gpus if gpu.index == whole_number(entry)]
    elif entry.startswith("MIG-"):
        named = [VisibleDevice(entry, gpu, s) for gpu in gpus for s in gpu.mig_slices if _names(entry, gpu, s)]
    else:
        named = [VisibleDevice(entry, gpu, None) for gpu in gpus if entry != "GPU-" and gpu.uuid.startswith(entry)]
    return named[0] if len(named) == 1 else None


def _names(entry: str, gpu: Gpu, mig_slice: MigSlice) -> bool:
    if entry.startswith("MIG-GPU-"):  # the form of drivers before 470
        return entry == f"MIG-{gpu.uuid}/{mig_slice.gpu_instance}/{mig_slice.compute_instance}"
    return entry != "MIG-" and mig_slice.uuid.startswith(entry)
