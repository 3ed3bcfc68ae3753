"""Where do bytes come from soonest: this node's own image, or the network? And does a volume still fetch its blocks?"""

from __future__ import annotations

from typing import Literal

from kboot.quantities import show_bytes, show_seconds
from kboot.values import dataclass

LAZY_S = 0.004
"""Local flash answers in 0.1 ms, network volumes in about 1 ms; what still comes from a snapshot takes tens."""
LAZY_TIMES = 5
LAZY_READS = 6
LAZY_STREAMS = 64
"""Files read at once where each block waits for an object store: latency is what costs, and only that overlaps."""


@dataclass(frozen=True, slots=True)
class Origin:
    """choice: who is asked first. why: one sentence with both rates."""

    choice: Literal["image", "network"]
    why: str


def choose_origin(image_bytes_s: float | None, network_bytes_s: float | None, size_bytes: int) -> Origin:
    """Return where `size_bytes` come from first, by what was measured; None: it gave nothing."""
    image, network = image_bytes_s or 0.0, network_bytes_s or 0.0
    words = f"the image gives {_rate(image)}, the network {_rate(network)}"
    choice: Literal["image", "network"] = "network" if network > image else "image"
    fastest = max(image, network)
    takes = f"; {show_bytes(size_bytes)} take {show_seconds(size_bytes / fastest)}" if fastest else ""
    return Origin(choice, f"{'fetched' if choice == 'network' else 'copied from the image'}: {words}{takes}")


def is_lazy(reads: int, first_s: float, second_s: float) -> bool:
    """Return whether blocks come from a snapshot: the first read of each takes many times as long as the second."""
    return reads >= LAZY_READS and first_s >= LAZY_S and first_s >= LAZY_TIMES * second_s


def _rate(bytes_s: float) -> str:
    return f"{show_bytes(bytes_s)}/s" if bytes_s else "nothing"
