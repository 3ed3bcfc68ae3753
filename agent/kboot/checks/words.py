"""How are numbers and lists written in a finding?"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from kboot.quantities import show_gb

if TYPE_CHECKING:
    from kboot.checkpoint import LocalFile


def count(number: int, noun: str, plural: str = "") -> str:
    """Return "1 GPU", "2 GPUs", "3 processes"."""
    return f"{number} {noun if number == 1 else plural or noun + 's'}"


def some(items: Iterable[object], limit: int = 4) -> str:
    """Return the first few items, and how many more there are: "a, b and 3 more"."""
    words = [str(i) for i in items]
    if len(words) <= limit:
        return ", ".join(words)
    return f"{', '.join(words[:limit])} and {len(words) - limit} more"


def in_part(shared: Sequence[LocalFile]) -> str:
    """Say what is here of files of which a node has only what its ranks load, and what proves that."""
    have, size = sum(f.have_bytes for f in shared), sum(f.file.size_bytes for f in shared)
    nodes = some(sorted({f.told_by for f in shared}))
    return (
        f"{show_gb(have)} of {show_gb(size)} in {count(len(shared), 'file')} proven by range digests that {nodes} "
        "published, not by the file's own hash"
    )


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
