"""How are numbers and lists written in a finding?"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from kboot.cpulist import format_cpu_list
from kboot.quantities import show_gb_of

if TYPE_CHECKING:
    from kboot.checkpoint import LocalFile


def count(number: int, noun: str, plural: str = "") -> str:
    """Return "1 GPU", "2 GPUs", "3 processes", "20,000 files"."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


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
        f"{show_gb_of(have, size)} in {count(len(shared), 'file')} proven by range digests that {nodes} "
        "published, not by the file's own hash"
    )


def percent(fraction: float) -> str:
    """Return a part of a whole: "72 %"."""
    return f"{100 * fraction:.0f} %"


def ranges(numbers: Iterable[int]) -> str:
    """Return numbers as a kernel list: "0-3,8"."""
    return format_cpu_list(numbers)
