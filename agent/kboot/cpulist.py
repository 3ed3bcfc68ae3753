"""How are CPUs (and NUMA nodes) written in the kernel's lists, as in "0-9,12-63"?"""

from __future__ import annotations

from collections.abc import Iterable

HIGHEST = (1 << 16) - 1
"""Kernels are built for 8,192 CPUs and 1,024 nodes at most; a list that goes far beyond is a mistake or an attack."""


def parse_cpu_list(text: str) -> tuple[int, ...]:
    """Return the numbers of a kernel list, sorted; an empty text is an empty list.

    Raises:
        ValueError: not a list of numbers and ascending ranges, or one beyond HIGHEST, in value or in number.
    """
    numbers: set[int] = set()
    named = 0
    for part in text.replace("\n", "").split(","):
        if not part.strip():
            continue
        first, dash, last = part.strip().partition("-")
        if not (first.isdecimal() and (last.isdecimal() if dash else True)):
            raise ValueError(f"{part.strip()[:40]!r} is not a number or a range of numbers")
        if max(len(first.lstrip("0")), len(last.lstrip("0"))) > len(str(HIGHEST)) or int(last or first) > HIGHEST:
            raise ValueError(f"{part.strip()[:40]!r} goes beyond {HIGHEST}")
        if dash and int(last) < int(first):
            raise ValueError(f"{part.strip()!r} runs backwards")
        found = range(int(first), int(last if dash else first) + 1)
        named += len(found)
        if named > HIGHEST + 1:
            raise ValueError(f"it names more numbers than there are up to {HIGHEST}")
        numbers.update(found)
    return tuple(sorted(numbers))


def format_cpu_list(numbers: Iterable[int]) -> str:
    """Return the numbers as the kernel writes them; empty for none."""
    parts: list[str] = []
    ordered = sorted(set(numbers))
    start = 0
    for at, number in enumerate(ordered):
        if at + 1 == len(ordered) or ordered[at + 1] != number + 1:
            parts.append(f"{ordered[start]}-{number}" if start < at else str(number))
            start = at + 1
    return ",".join(parts)
