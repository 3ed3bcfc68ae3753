"""How are a quantity and a moment written for a person? Three digits, bytes in powers of ten, memory in powers of 1024.

Disks, networks and checkpoints are sold and counted in GB; the kernel, the driver and the engines count memory in GiB.
"""

from __future__ import annotations

from datetime import UTC, datetime

_BYTE_UNITS = ("B", "kB", "MB", "GB", "TB", "PB")
_MEMORY_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


def show_bytes(size_bytes: float) -> str:
    """Return "0 B", "512 B", "4.98 GB", "1.56 TB": three digits at most, never rounded up to the next unit's 1000."""
    return _scaled(size_bytes, 1000, _BYTE_UNITS)


def show_gb(size_bytes: int) -> str:
    """Return decimal gigabytes for sums that are read together: "1,561 GB", "4.3 GB"; "28.5 MB" of a little."""
    if 0 < abs(size_bytes) < 50_000_000:
        return f"{size_bytes / 1e6:.1f} MB".replace(".0 MB", " MB")
    return f"{_one_place(size_bytes / 1e9)} GB"


def show_gb_of(part_bytes: int, whole_bytes: int) -> str:
    """Return a part and its whole in the unit of the whole: "181 of 1,446 GB", "26.7 of 112 MB"."""
    unit = next((i for i in range(3) if whole_bytes < 1000 ** (i + 1)), 3)
    part, whole = part_bytes / 1000**unit, whole_bytes / 1000**unit
    return f"{'under 0.1' if 0 < part < 0.05 else _one_place(part)} of {_one_place(whole)} {_BYTE_UNITS[unit]}"


def _one_place(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 99.95 else f"{value:.1f}".removesuffix(".0")


def show_memory(size_bytes: float) -> str:
    """Return a size of RAM or GPU memory: "64 MiB", "139 GiB", "1.46 TiB"."""
    number, unit = _scaled(size_bytes, 1024, _MEMORY_UNITS).split(" ")
    return f"{number.removesuffix('.0').removesuffix('.00')} {unit}"  # memory comes in whole parts: "64 MiB"


def show_file_in_memory(size_bytes: float) -> str:
    """Return the size of files that are compared with memory, in both: "768 GB (715 GiB)"."""
    return f"{show_bytes(size_bytes)} ({show_memory(size_bytes)})"


def show_rate(size_bytes: float, seconds: float) -> str:
    """Return "1.65 GB/s"; empty where nothing moved or no time passed."""
    if size_bytes <= 0 or seconds <= 0:
        return ""
    return f"{show_bytes(size_bytes / seconds)}/s"


def show_seconds(seconds: float) -> str:
    """Return "0.04 s", "4.2 s", "97 s", "12 min 05 s", "3 h 07 min"."""
    value = max(0.0, seconds)
    if value < 0.995:
        return f"{value:.2f} s"
    if value < 59.95:
        return f"{value:.1f} s"
    whole = round(value)
    if whole < 100:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    if minutes < 100:
        return f"{minutes} min {rest:02d} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min"


def show_roughly(seconds: float) -> str:
    """Return a length of time in one unit: "under 1 s", "40 s", "12 min", "3 h", "15 d"."""
    if 0 < seconds < 0.5:
        return "under 1 s"
    for limit, unit_s, unit in ((120, 1, "s"), (7200, 60, "min"), (172800, 3600, "h")):
        if seconds < limit:
            return f"{max(0.0, seconds) / unit_s:.0f} {unit}"
    return f"{seconds / 86400:.0f} d"


def show_outlook(eta_s: float, goal: str, basis: str) -> str:
    """Return in how long the node will be "serving" or where else it goes, and what that rests on."""
    return f"{goal} in {f'about {show_seconds(eta_s)}' if eta_s >= 1 else 'under 1 s'} ({basis})"


def show_time(unix_s: float) -> str:
    """Return the time in UTC: "2026-11-30 06:12:09Z"."""
    return datetime.fromtimestamp(unix_s, UTC).strftime("%Y-%m-%d %H:%M:%SZ")


def _scaled(size_bytes: float, step: int, units: tuple[str, ...]) -> str:
    value = float(max(0, size_bytes))
    for unit in units:
        if value < 999.5 or unit == units[-1]:
            return f"{int(value)} B" if unit == "B" else f"{_three_digits(value)} {unit}"
        value /= step
    raise AssertionError("unreachable: the last unit takes everything")


def _three_digits(value: float) -> str:
    if value < 9.995:
        return f"{value:.2f}"
    if value < 99.95:
        return f"{value:.1f}"
    return f"{value:.0f}"
