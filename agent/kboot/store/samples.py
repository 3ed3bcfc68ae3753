"""Which few ranges stand for a large file when there is no time to read it, and what do they hash to?

The same content is sampled in the same places everywhere, so that a copy can be compared with what was proven. Ranges
find a file that is cut, holed, mixed up or of another version; one changed byte they find only by luck: the whole hash
does that.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

from kboot.checkpoint import RemoteFile
from kboot.host.pagecache import Reading, new_buffer

RANGES = 16
RANGE_BYTES = 64 << 10
SMALL_BYTES = 16 << 20
"""Files up to this size are read whole: that costs no more than their ranges on other files do."""

_BLOCK_BYTES = 4096


def ranges_of(file: RemoteFile) -> tuple[tuple[int, int], ...]:
    """Return the [start, end) ranges of a file, in order: its first, its last, others all over; none of a small one."""
    if file.size_bytes <= SMALL_BYTES:
        return ()
    last = (file.size_bytes - RANGE_BYTES) // _BLOCK_BYTES
    places = {0, last}
    number = 0
    while len(places) < RANGES:
        digest = hashlib.sha256(f"{file.blob_id} {number}".encode()).digest()
        places.add(int.from_bytes(digest[:8]) % last)
        number += 1
    starts = (place * _BLOCK_BYTES for place in sorted(places))
    return tuple((start, min(start + RANGE_BYTES, file.size_bytes)) for start in starts)


def read_samples(path: Path, file: RemoteFile, *, past_cache: bool) -> tuple[str, ...]:
    """Return the SHA-256 of each range. past_cache: what the disk has, whatever memory remembers of it.

    Raises:
        OSError: it cannot be read.
    """
    buffer = new_buffer(RANGE_BYTES)
    found = []
    for start, end in ranges_of(file):
        content = hashlib.sha256(usedforsecurity=False)
        with Reading(path, buffer, start, end, past_cache=past_cache) as reading:
            for data in reading:
                content.update(data)
        found.append(content.hexdigest())
    return tuple(found)


def first_wrong(file: RemoteFile, wanted: Sequence[str], found: Sequence[str]) -> tuple[int, int] | None:
    """Return the first range whose hash differs; None where all are the same."""
    for place, one, other in zip(ranges_of(file), wanted, found, strict=False):
        if one != other:
            return place
    return None
