"""Which GPUs or slices does CUDA_VISIBLE_DEVICES name?"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from kboot.facts.types import Gpu, MigSlice


@dataclass(frozen=True, slots=True)
class VisibleDevice:
    """One entry, resolved. slice: None for a whole GPU."""

    entry: str
    gpu: Gpu
    slice: MigSlice | None


@dataclass(frozen=True, slots=True)
class VisibleDevices:
    """unknown: entries that name nothing here; CUDA itself ignores all that follow the first such entry."""

    devices: tuple[VisibleDevice, ...]
    unknown: tuple[str, ...]


def visible_devices(value: str, gpus: Iterable[Gpu]) -> VisibleDevices:
    """Resolve a comma-separated list of indices, `GPU-…`, `MIG-…` and `MIG-GPU-…/gi/ci`; ids may be cut short.

    Forms: https://docs.nvidia.com/cuda/cuda-c-programming-guide/#env-vars and the MIG user guide.
    """
    known = tuple(gpus)
    devices: list[VisibleDevice] = []
    unknown: list[str] = []
    for entry in (part.strip() for part in value.split(",") if part.strip()):
        found = _resolve(entry, known)
        if found is None:
            unknown.append(entry)
        else:
            devices.append(found)
    return VisibleDevices(tuple(devices), tuple(unknown))


def _resolve(entry: str, gpus: tuple[Gpu, ...]) -> VisibleDevice | None:
    if entry.isdecimal():
        named = [VisibleDevice(entry, gpu, None) for gpu in gpus if gpu.index == int(entry)]
    elif entry.startswith("MIG-"):
        named = [VisibleDevice(entry, gpu, s) for gpu in gpus for s in gpu.mig_slices if _names(entry, gpu, s)]
    else:
        named = [VisibleDevice(entry, gpu, None) for gpu in gpus if entry != "GPU-" and gpu.uuid.startswith(entry)]
    return named[0] if len(named) == 1 else None


def _names(entry: str, gpu: Gpu, mig_slice: MigSlice) -> bool:
    if entry.startswith("MIG-GPU-"):  # the form of drivers before 470
        return entry == f"MIG-{gpu.uuid}/{mig_slice.gpu_instance}/{mig_slice.compute_instance}"
    return entry != "MIG-" and mig_slice.uuid.startswith(entry)
