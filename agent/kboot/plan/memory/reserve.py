"""What of a GPU's memory do neither weights nor KV cache get? Every number has a name and a source."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from kboot.plan.memory.ranks import flag_value
from kboot.values import dataclass

if TYPE_CHECKING:
    from kboot.profile.types import LayoutAsk

GIB = 2**30


@dataclass(frozen=True, slots=True)
class Reserve:
    """GPU memory that neither weights nor KV cache get. source: who measured it, where."""

    name: str
    size_bytes: int
    source: str


_RUN = "vLLM 0.26.0, DP2+EP, 2x H200, recorded boot"
DRIVER_RESERVE = Reserve("driver", 644_939_776, "NVML `reserved` of an idle H200")
RESERVES: tuple[Reserve, ...] = (
    DRIVER_RESERVE,
    Reserve("CUDA graphs", int(2.52 * GIB), f"{_RUN}: `Estimated CUDA graph memory: 2.52 GiB`"),
    # 0.8 × 139.80 GiB seen by CUDA − 19.10 weights − 88.37 KV − 2.52 graphs
    Reserve("context, NCCL and activations", int(1.85 * GIB), f"{_RUN}: what its 80 % left beside weights, KV, graphs"),
)
RESERVE_BYTES = sum(r.size_bytes for r in RESERVES)

_UTILIZATION = ("--gpu-memory-utilization", "--device-memory-utilization")


def reserves_of(layout: LayoutAsk, memory_bytes: int, held_bytes: int = 0) -> tuple[Reserve, ...]:
    """Return what one GPU keeps back when the layout's engine runs on it as the layout's arguments say.

    held_bytes: of other processes; what the engine would leave alone anyway is where they may be.
    """
    limit = _engine_limit(layout)
    kept = 0 if limit is None else int((memory_bytes - DRIVER_RESERVE.size_bytes) * (1 - limit[0]))
    if held_bytes > kept:
        return (*RESERVES, Reserve("held by other processes", held_bytes, "NVML, now"))
    return RESERVES if limit is None else (*RESERVES, Reserve("kept back by the engine", kept, limit[1]))


def _engine_limit(layout: LayoutAsk) -> tuple[float, str] | None:
    """Return the part of a GPU that the engine lets itself use, and who says so; None where it takes what is left."""
    limits: Mapping[str, tuple[tuple[str, ...], float | None, str]] = {
        "vllm": (_UTILIZATION, 0.92, "vLLM 0.26-0.33 (config/cache.py)"),
        "tokenspeed": (_UTILIZATION, 0.95, "TokenSpeed 0.1.1 (server_args.py)"),
        "sglang": (("--mem-fraction-static",), None, ""),  # unset, it is what graphs and batches of the launch leave
    }
    if layout.engine not in limits:
        return None
    names, default, whose = limits[layout.engine]
    asked = flag_value(layout.args, *names)
    if asked is not None and (fraction := _fraction(asked)) is not None:
        return fraction, f"{names[0]} {asked} in layout {layout.name}"
    return None if default is None else (default, f"{names[0]} {default}, the default of {whose}")


def _fraction(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if 0 < value <= 1 else None
