"""What does CUDA say to a program that starts? A program of its own, because a call into a sick driver may not return.

Run as `python -P -m kboot.host.cuda_child SECONDS [BUS_ID…]`; prints one JSON object. With bus ids, each of these GPUs
is given a context and a little memory, and the rate from pinned host memory is measured, as far as the time allows.
"""

from __future__ import annotations

import ctypes
import json
import math
import os
import signal
import sys
import time
from contextlib import suppress
from typing import Any

from kboot.cpulist import parse_cpu_list

_COPY_BYTES = 256 << 20
_COPIES = 6
_SMALL_BYTES = 1 << 20
_LAST_START = 0.6  # no further GPU is begun after this part of the time: one takes a second or more to wake
_NAMES = {
    2: "OUT_OF_MEMORY",
    34: "STUB_LIBRARY",
    46: "DEVICE_UNAVAILABLE",
    100: "NO_DEVICE",
    101: "INVALID_DEVICE",
    214: "ECC_UNCORRECTABLE",
    802: "SYSTEM_NOT_READY",
    803: "SYSTEM_DRIVER_MISMATCH",
    804: "COMPAT_NOT_SUPPORTED_ON_DEVICE",
    999: "UNKNOWN",
}


class CudaError(Exception):
    """A call answered other than success."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


def main(argv: list[str]) -> int:
    """Ask and print. The alarm ends this process should its parent have died and the driver answer never."""
    timeout_s = float(argv[1])
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(math.ceil(timeout_s) + 1)
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
    except OSError as exc:
        answers: dict[str, Any] = {"cuda_init": "LIBRARY_NOT_FOUND", "detail": str(exc)}
    else:
        answers = ask(cuda, frozenset(argv[2:]), time.monotonic() + _LAST_START * timeout_s)
    sys.stdout.write(json.dumps(answers))
    return 0


def ask(cuda: Any, measured: frozenset[str], until_s: float) -> dict[str, Any]:
    """Return all answers; a GPU that fails leaves the others whole."""
    code = int(cuda.cuInit(0))
    if code:
        return {"cuda_init": error_name(cuda, code), "code": code}
    try:
        devices = _devices(cuda)
    except CudaError as exc:
        return {"cuda_init": error_name(cuda, exc.code), "code": exc.code}
    bus_of = {device: _bus_id(cuda, device) for device in devices}
    found = []
    for device in devices:
        answer: dict[str, Any] = {"bus_id": bus_of[device]}
        answer["peers"] = {bus_of[p]: _reaches(cuda, device, p) for p in devices if p != device and bus_of[p]}
        if bus_of[device] in measured and time.monotonic() < until_s:
            answer |= _tried(cuda, device, bus_of[device])
        found.append(answer)
    return {"cuda_init": "OK", "devices": found}


def error_name(cuda: Any, code: int) -> str:
    """Return CUDA's name of an error without "CUDA_ERROR_"; a number where neither it nor kboot has one."""
    name = ctypes.c_char_p()
    with suppress(AttributeError):
        if not cuda.cuGetErrorName(code, ctypes.byref(name)) and name.value:
            return name.value.decode(errors="replace").removeprefix("CUDA_ERROR_")
    return _NAMES.get(code, f"CODE_{code}")


def _must(code: int) -> None:
    if code:
        raise CudaError(int(code))


def _devices(cuda: Any) -> list[int]:
    number = ctypes.c_int()
    _must(cuda.cuDeviceGetCount(ctypes.byref(number)))
    found = []
    for ordinal in range(number.value):
        device = ctypes.c_int()
        _must(cuda.cuDeviceGet(ctypes.byref(device), ordinal))
        found.append(device.value)
    return found


def _bus_id(cuda: Any, device: int) -> str:
    text = ctypes.create_string_buffer(32)
    return text.value.decode().lower() if not cuda.cuDeviceGetPCIBusId(text, len(text), device) else ""


def _reaches(cuda: Any, device: int, peer: int) -> bool | None:
    can = ctypes.c_int()
    return bool(can.value) if not cuda.cuDeviceCanAccessPeer(ctypes.byref(can), device, peer) else None


def _tried(cuda: Any, device: int, bus_id: str) -> dict[str, Any]:
    """Return what taking a context and memory answers, and the rate of copies to it."""
    _go_near(bus_id)
    context = ctypes.c_void_p()
    try:
        _must(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device))
    except CudaError as exc:
        return {"failed": error_name(cuda, exc.code)}
    try:
        _must(cuda.cuCtxSetCurrent(context))
        _must(_alloc_and_free(cuda, _SMALL_BYTES))
        return {"failed": "", "h2d_bytes_per_s": _copy_rate(cuda)}
    except CudaError as exc:
        return {"failed": error_name(cuda, exc.code)}
    finally:
        cuda.cuDevicePrimaryCtxRelease_v2(device)


def _go_near(bus_id: str) -> None:
    """Run on the CPUs near the GPU, so that the host memory of the copies comes from its side of the machine."""
    path = f"/sys/bus/pci/devices/{bus_id}/local_cpulist"
    with suppress(OSError, ValueError), open(path, encoding="ascii") as file:
        os.sched_setaffinity(0, parse_cpu_list(file.read().strip()))


def _alloc_and_free(cuda: Any, size_bytes: int) -> int:
    pointer = ctypes.c_uint64()
    return int(cuda.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(size_bytes)) or cuda.cuMemFree_v2(pointer))


def _copy_rate(cuda: Any) -> float | None:
    """Return the best of some copies; None where there was no room for them, which is another check's finding."""
    size, target, source = ctypes.c_size_t(_COPY_BYTES), ctypes.c_uint64(), ctypes.c_void_p()
    if cuda.cuMemAlloc_v2(ctypes.byref(target), size):
        return None
    try:
        if cuda.cuMemHostAlloc(ctypes.byref(source), size, 0):
            return None
        try:
            return max(_copy(cuda, target, source, size) for _ in range(_COPIES))
        finally:
            cuda.cuMemFreeHost(source)
    finally:
        cuda.cuMemFree_v2(target)


def _copy(cuda: Any, target: ctypes.c_uint64, source: ctypes.c_void_p, size: ctypes.c_size_t) -> float:
    started_s = time.perf_counter()
    _must(cuda.cuMemcpyHtoD_v2(target, source, size))
    _must(cuda.cuCtxSynchronize())
    return _COPY_BYTES / max(1e-9, time.perf_counter() - started_s)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv))
