"""Which stretches of a file are here? Pure arithmetic on half-open byte ranges."""

from __future__ import annotations

Range = tuple[int, int]
"""[start, end) in bytes."""
Ranges = tuple[Range, ...]
"""Sorted, not empty, with a gap between any two."""


def add(ranges: Ranges, start: int, end: int) -> Ranges:
    """Return the ranges with [start, end) in them."""
    if start >= end:
        return ranges
    if ranges and ranges[-1][0] <= start <= ranges[-1][1]:  # a stream goes on where it was
        return (*ranges[:-1], (ranges[-1][0], max(ranges[-1][1], end)))
    before = tuple(r for r in ranges if r[1] < start)
    after = tuple(r for r in ranges if r[0] > end)
    touched = ranges[len(before) : len(ranges) - len(after)]
    if touched:
        start, end = min(start, touched[0][0]), max(end, touched[-1][1])
    return (*before, (start, end), *after)


def subtract(ranges: Ranges, start: int, end: int) -> Ranges:
    """Return the ranges without [start, end)."""
    before = tuple((a, min(b, start)) for a, b in ranges if a < start)
    after = tuple((max(a, end), b) for a, b in ranges if b > end)
    return (*before, *after)


def union(one: Ranges, other: Ranges) -> Ranges:
    """Return what is in either."""
    for start, end in other:
        one = add(one, start, end)
    return one


def clip(ranges: Ranges, size_bytes: int) -> Ranges:
    """Return the part below size_bytes."""
    return tuple((start, min(end, size_bytes)) for start, end in ranges if start < size_bytes)


def gaps(ranges: Ranges, size_bytes: int) -> Ranges:
    """Return what of [0, size_bytes) is missing."""
    edges = [0, *(edge for r in ranges for edge in r), size_bytes]
    return tuple((start, end) for start, end in zip(edges[::2], edges[1::2], strict=True) if start < end)


def prefix(ranges: Ranges) -> int:
    """Return how many bytes are here from the start without a gap."""
    return ranges[0][1] if ranges and ranges[0][0] == 0 else 0


def total(ranges: Ranges) -> int:
    """Return how many bytes are here."""
    return sum(end - start for start, end in ranges)
