"""What is likely to help when an engine ends with this first cause?"""

from __future__ import annotations

import re

_REMEDIES: tuple[tuple[str, str], ...] = (
    (
        r"out of memory|OutOfMemoryError|CUDA_ERROR_OUT_OF_MEMORY",
        "`kboot fit` gives the bytes of every rank; take a layout that fits, or free the GPUs (`nvidia-smi`)",
    ),
    (
        r"larger than the maximum number of tokens that can be stored in KV cache|KV cache is needed",
        "lower --max-model-len or raise --gpu-memory-utilization; `kboot fit` gives the longest context that fits",
    ),
    (
        r"Free memory on device .* is less than desired",
        "another process holds GPU memory: `kboot doctor --check gpu.idle_clean` names it",
    ),
    (
        r"ModuleNotFoundError: No module named '(?P<what>[\w.]+)'",
        "install {what} in the engine's environment (`kboot facts` shows which one it is)",
    ),
    (
        r"fatal error: (?P<what>\S+): No such file or directory",
        "a kernel is compiled at start and lacks the header {what}: install the CUDA or CUTLASS headers that the "
        "engine's release names, or a wheel with kernels already built",
    ),
    (r"invalid (?:tool call|reasoning) parser", "`kboot plan` names the parsers that the installed release knows"),
    (r"unrecognized arguments: (?P<what>.+)", "the installed release does not know {what}; `kboot plan` checks flags"),
    (r"Address already in use|\[Errno 98\]", "another process listens there: `ss -ltnp`"),
    (
        r"Timed out waiting for engine core processes",
        "a rank never answered: read its log lines before this one; slow loading needs VLLM_ENGINE_READY_TIMEOUT_S",
    ),
    (
        r"Configuration mismatch detected for engine",
        "nodes were started with different arguments: compare `kboot plan --rank N` of each",
    ),
    (
        r"Weight files referenced in index but missing|Cannot find any model weights",
        "`kboot verify --repair` fetches what is missing",
    ),
    (r"SafetensorError|InvalidHeader|HeaderTooLarge", "a shard is damaged: `kboot verify --mode full --repair`"),
    (r"CUDA driver version is insufficient|no kernel image is available", "`kboot doctor` compares driver and engine"),
    (r"system not yet initialized|CUDA_ERROR_SYSTEM_NOT_READY", "the fabric manager is not up: `kboot doctor`"),
    (
        r"unhandled (?:cuda|system) error|NCCL error|DistBackendError",
        "NCCL_DEBUG=INFO in the layout's env names the link",
    ),
    (r"No space left on device", "`kboot doctor --check 'disk.*'`; shared memory counts too (/dev/shm)"),
    (r"Killed$", "the kernel ended it: `dmesg` tells whether memory ran out"),
)


def remedy(cause: str) -> str | None:
    """Return the step that most likely helps; None where the cause is not known."""
    for pattern, text in _REMEDIES:
        if found := re.search(pattern, cause):
            return text.format(**found.groupdict()) if found.groupdict() else text
    return None
