"""How is a quantity written for a person? Bytes in powers of ten, as disks and networks count them."""

from __future__ import annotations

from datetime import UTC, datetime

_BYTE_UNITS = ("B", "kB", "MB", "GB", "TB", "PB")


def show_bytes(size_bytes: float) -> str:
    """Return "0 B", "512 B", "4.98 GB", "1.56 TB": three digits at most, never rounded up to the next unit's 1000."""
    value = float(max(0, size_bytes))
    for unit in _BYTE_UNITS:
        if value < 999.5 or unit == _BYTE_UNITS[-1]:
            return f"{int(value)} B" if unit == "B" else f"{_three_digits(value)} {unit}"
        value /= 1000
    raise AssertionError("unreachable: the last unit takes everything")


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


def show_age(seconds: float) -> str:
    """Return as show_seconds() does, and "12 days" where hours say little."""
    days = int(max(0.0, seconds) // 86400)
    return show_seconds(seconds) if days < 2 else f"{days} days"


def show_time(unix_s: float) -> str:
    """Return the time in UTC: "2026-11-30 06:12:09Z"."""
    return datetime.fromtimestamp(unix_s, UTC).strftime("%Y-%m-%d %H:%M:%SZ")


def shorten(text: str, width: int) -> str:
    """Return text of at most `width` characters; what is cut out of the middle is marked."""
    if len(text) <= width:
        return text
    if width < 4:
        return text[:width]
    head = (width - 1) // 2
    return f"{text[:head]}…{text[len(text) - (width - 1 - head) :]}"


def _three_digits(value: float) -> str:
    if value < 9.995:
        return f"{value:.2f}"
    if value < 99.95:
        return f"{value:.1f}"
    return f"{value:.0f}"
