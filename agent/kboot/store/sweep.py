"""What did killed downloads leave among the blobs that nobody will use again?"""

from __future__ import annotations

import re
from collections.abc import Collection
from pathlib import Path

from kboot.host.clock import unix_s
from kboot.host.files import file_names, remove
from kboot.host.open_files import may_be_open_elsewhere, open_in
from kboot.store.journal import SUFFIX as JOURNAL_SUFFIX

PART_SUFFIX = ".part"
TRANSFER_SUFFIX = "-transfer"
"""Of what another transport has not finished, after the name of the part it is for."""

_HUB_PART = re.compile(r".+\.[0-9a-f]{8}\.incomplete")
_MIN_AGE_S = 600.0


def sweep(blobs: Path) -> int:
    """Remove it and return the bytes won.

    That is: parts of huggingface_hub, which names them for one process; what hf_transfer had not finished; parts that
    were reserved and never got a byte; journals of parts that are blobs by now. What a process has open stays; where a
    holder could be out of sight, or may come back, so does what was written to in the last ten minutes.

    Raises:
        KbootError: the folder may not be read, or the disk says no.
    """
    names = file_names(blobs)
    for part in _ended(names):
        remove(blobs / (part + JOURNAL_SUFFIX))
    orphans = [name for name in names if _may_be_orphan(name)]
    held = open_in(blobs) if orphans else frozenset()
    return sum(_sweep(blobs / name) for name in orphans if not {name, name.removesuffix(TRANSFER_SUFFIX)} & held)


def _may_be_orphan(name: str) -> bool:
    return name.endswith((PART_SUFFIX, PART_SUFFIX + TRANSFER_SUFFIX)) or _HUB_PART.fullmatch(name) is not None


def _sweep(orphan: Path) -> int:
    is_part = orphan.name.endswith(PART_SUFFIX)
    try:
        stat = orphan.stat()
        if is_part and stat.st_size:  # begun: the next fetch builds on it
            return 0
        # Who reserved an empty part opens it when its turn comes, which may be much later.
        # A time far ahead is that of a clock that was wrong, which says nothing.
        if (is_part or may_be_open_elsewhere(orphan)) and abs(unix_s() - stat.st_mtime) < _MIN_AGE_S:
            return 0
    except FileNotFoundError:
        return 0
    remove(orphan)
    return stat.st_blocks * 512 if is_part else min(stat.st_size, stat.st_blocks * 512)


def _ended(names: Collection[str]) -> list[str]:
    """Return the parts that became blobs, whose journal a crash left behind."""
    parts = (name.removesuffix(JOURNAL_SUFFIX) for name in names if name.endswith(JOURNAL_SUFFIX))
    return [part for part in parts if part not in names and part.removesuffix(PART_SUFFIX) in names]
