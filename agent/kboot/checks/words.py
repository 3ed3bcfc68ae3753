"""How are numbers and lists written in a finding?"""

from __future__ import annotations

from collections.abc import Iterable


def mem_size(size_bytes: int) -> str:
    """Return a size of RAM or GPU memory, in powers of 1024 as their tools count: "64 MiB", "1.4 TiB"."""
    return _scaled(size_bytes, 1024, ("B", "KiB", "MiB", "GiB", "TiB"))


def disk_size(size_bytes: int) -> str:
    """Return a size or rate of files, in powers of 1000 as disks and networks count: "4.9 GB", "1.6 TB"."""
    return _scaled(size_bytes, 1000, ("B", "kB", "MB", "GB", "TB"))


def file_in_memory(size_bytes: int) -> str:
    """Return the size of files that are compared with memory, in both: "768 GB (715.3 GiB)"."""
    return f"{disk_size(size_bytes)} ({mem_size(size_bytes)})"


def _scaled(size_bytes: int, step: int, units: tuple[str, ...]) -> str:
    value = float(size_bytes)
    for unit in units[:-1]:
        if abs(value) < step:
            return _number(value, unit)
        value /= step
    return _number(value, units[-1])


def _number(value: float, unit: str) -> str:
    text = f"{value:.1f}".removesuffix(".0")
    return f"{text} {unit}"


def count(number: int, noun: str, plural: str = "") -> str:
    """Return "1 GPU", "2 GPUs", "3 processes"."""
    return f"{number} {noun if number == 1 else plural or noun + 's'}"


def some(items: Iterable[object], limit: int = 4) -> str:
    """Return the first few items, and how many more there are: "a, b and 3 more"."""
    words = [str(i) for i in items]
    if len(words) <= limit:
        return ", ".join(words)
    return f"{', '.join(words[:limit])} and {len(words) - limit} more"


def percent(fraction: float) -> str:
    """Return a part of a whole: "72 %"."""
    return f"{100 * fraction:.0f} %"


def ranges(numbers: Iterable[int]) -> str:
    """Return numbers as a kernel list: "0-3,8"."""
    out: list[tuple[int, int]] = []
    for n in sorted(set(numbers)):
        if out and n == out[-1][1] + 1:
            out[-1] = (out[-1][0], n)
        else:
            out.append((n, n))
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in out)


def age(seconds: float) -> str:
    """Return a length of time in one unit: "under 1 s", "40 s", "12 min", "3 h", "15 d"."""
    if 0 < seconds < 0.5:
        return "under 1 s"
    for limit, unit_s, unit in ((120, 1, "s"), (7200, 60, "min"), (172800, 3600, "h")):
        if seconds < limit:
            return f"{max(0.0, seconds) / unit_s:.0f} {unit}"
    return f"{seconds / 86400:.0f} d"
