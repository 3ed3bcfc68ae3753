"""What does NVML say about this node? A program of its own, because a call into a sick driver may never return.

Run as `python -P -m kboot.host.nvml_child SECONDS`; prints one JSON object in the shape of nvml.json. A value that NVML
does not give is {"error": NAME}, NAME being that of NVML's error without "NVML_ERROR_".
"""

from __future__ import annotations

import json
import math
import signal
import sys
import time
from typing import Any

from kboot.cpulist import format_cpu_list, parse_cpu_list
from kboot.host.nvml_ask import ask_value as _ask
from kboot.host.nvml_ask import error_name as _name
from kboot.host.nvml_ask import text as _text
from kboot.host.nvml_health import gpu_health

_ULONG_BITS = 64
_MIG_NAME = " MIG "


def main(argv: list[str]) -> int:
    """Ask and print. The alarm ends this process should its parent have died and the driver answer never."""
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(math.ceil(float(argv[1])) + 1)
    try:
        import pynvml  # type: ignore[import-untyped]
    except ImportError as exc:
        answers: dict[str, Any] = {"nvml_init": "BINDING_NOT_FOUND", "detail": str(exc)}
    else:
        answers = ask(pynvml)
    sys.stdout.write(json.dumps(answers))
    return 0


def ask(nvml: Any) -> dict[str, Any]:
    """Return all answers; a GPU that fails leaves the others whole."""
    started_s = time.monotonic()
    try:
        nvml.nvmlInit()
    except nvml.NVMLError as exc:
        return {"nvml_init": _name(nvml, exc), "detail": str(exc), "library": _library(nvml)}
    answers = {
        "nvml_init": "OK",
        "driver": _ask(nvml, lambda: _text(nvml.nvmlSystemGetDriverVersion())),
        "library": _library(nvml),
        "cuda_version": _ask(nvml, lambda: _cuda(nvml.nvmlSystemGetCudaDriverVersion())),
        "confidential": _ask(nvml, lambda: _confidential(nvml)),
        "gpus": _gpus(nvml),
    }
    return {**answers, "seconds": round(time.monotonic() - started_s, 3)}


def _gpus(nvml: Any) -> Any:
    count = _ask(nvml, nvml.nvmlDeviceGetCount)
    if not isinstance(count, int):
        return count
    words = _affinity_words()
    return [_gpu(nvml, index, words) for index in range(count)]


def _gpu(nvml: Any, index: int, words: int) -> dict[str, Any]:
    handle = _ask(nvml, lambda: nvml.nvmlDeviceGetHandleByIndex(index))
    if isinstance(handle, dict):
        return {"index": index, **handle}
    memory = _ask(nvml, lambda: nvml.nvmlDeviceGetMemoryInfo(handle))
    failed = isinstance(memory, dict)
    mig = _ask(nvml, lambda: bool(nvml.nvmlDeviceGetMigMode(handle)[0]))
    gpu: dict[str, Any] = {
        "index": index,
        "name": _ask(nvml, lambda: _text(nvml.nvmlDeviceGetName(handle))),
        "uuid": _ask(nvml, lambda: _text(nvml.nvmlDeviceGetUUID(handle))),
        "bus_id": _ask(nvml, lambda: _text(nvml.nvmlDeviceGetPciInfo(handle).busId)),
        "cc": _ask(nvml, lambda: "{}.{}".format(*nvml.nvmlDeviceGetCudaComputeCapability(handle))),
        "mem_total": memory if failed else int(memory.total),
        "mem_used": memory if failed else int(memory.used),
        "cpu_affinity": _ask(nvml, lambda: _cpus(nvml.nvmlDeviceGetCpuAffinity(handle, words))),
        "numa_node_id": _ask(nvml, lambda: int(nvml.nvmlDeviceGetNumaNodeId(handle))),
        "procs": _ask(nvml, lambda: _processes(nvml, handle)),
        "mig": mig,
        "health": gpu_health(nvml, handle),
    }
    if mig is True:
        gpu["instances"] = _ask(nvml, lambda: _instances(nvml, handle))
    return gpu


def _instances(nvml: Any, handle: Any) -> list[dict[str, Any]]:
    found = []
    for slot in range(nvml.nvmlDeviceGetMaxMigDeviceCount(handle)):
        try:
            mig = nvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, slot)
        except nvml.NVMLError_NotFound:  # an empty slot
            continue
        found.append(_instance(nvml, mig))
    return found


def _instance(nvml: Any, mig: Any) -> dict[str, Any]:
    return {
        "uuid": _ask(nvml, lambda: _text(nvml.nvmlDeviceGetUUID(mig))),
        "name": _ask(nvml, lambda: _text(nvml.nvmlDeviceGetName(mig)).rpartition(_MIG_NAME)[2]),
        "mem_total": _ask(nvml, lambda: int(nvml.nvmlDeviceGetMemoryInfo(mig).total)),
        "gi": _ask(nvml, lambda: int(nvml.nvmlDeviceGetGpuInstanceId(mig))),
        "ci": _ask(nvml, lambda: int(nvml.nvmlDeviceGetComputeInstanceId(mig))),
    }


def _processes(nvml: Any, handle: Any) -> list[dict[str, Any]]:
    return [
        {"pid": int(p.pid), "used": None if p.usedGpuMemory is None else int(p.usedGpuMemory)}
        for p in nvml.nvmlDeviceGetComputeRunningProcesses(handle)
    ]


def _library(nvml: Any) -> Any:
    """Return the library's own version; it answers before and without an initialised driver."""
    return _ask(nvml, lambda: _text(nvml.nvmlSystemGetNVMLVersion()).partition(".")[2])  # "12.550.107" leads with CUDA


def _confidential(nvml: Any) -> dict[str, Any]:
    """Return whether confidential computing is on, and then whether the GPUs were told to take work."""
    state = nvml.nvmlSystemGetConfComputeState()
    on = bool(state.ccFeature)
    ready = _ask(nvml, lambda: bool(nvml.nvmlSystemGetConfComputeGpusReadyState())) if on else None
    return {"feature": on, "devtools": bool(state.devToolsMode), "ready": ready if isinstance(ready, bool) else None}


def _cuda(number: int) -> str:
    return f"{number // 1000}.{number % 1000 // 10}"


def _cpus(mask: Any) -> str:
    return format_cpu_list(
        word * _ULONG_BITS + bit for word, value in enumerate(mask) for bit in range(_ULONG_BITS) if value >> bit & 1
    )


def _affinity_words() -> int:
    try:
        with open("/sys/devices/system/cpu/possible", encoding="ascii") as file:
            return max(parse_cpu_list(file.read())) // _ULONG_BITS + 1
    except (OSError, ValueError):
        return 16


if __name__ == "__main__":
    raise SystemExit(main(sys.argv))
