"""What does kboot itself keep in a folder of kernel caches, beside what the engine puts there?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from kboot.host.files import atomic_write, read_small

FACTORS = "factors.json"
COMPLETE = "complete"
MANIFEST = "manifest.json"
INVENTORY = "inventory"
OWN = frozenset({FACTORS, COMPLETE, MANIFEST, INVENTORY})
"""None of them is the engine's; an archive does not carry them as they are."""

QUARANTINE = ".quarantine"
"""Beside the folders of keys: what was taken out of them."""

_FIRST_LINE = "kboot cache inventory 1"
_LIMIT_BYTES = 512 << 20

Marks = Mapping[str, tuple[int, int]]
"""Path → (size in bytes, mtime in ns): a file with these was whole and durable when the inventory was written."""


def write_inventory(folder: Path, marks: Iterable[tuple[str, int, int]]) -> None:
    """Keep the files that are known to be whole; a name with a line break is left out and looked at again each time."""
    lines = [f"{size} {mtime_ns} {path}" for path, size, mtime_ns in sorted(marks) if "\n" not in path]
    text = "\n".join([_FIRST_LINE, *lines, ""])
    atomic_write(folder / INVENTORY, text.encode(errors="surrogateescape"))


def read_inventory(folder: Path) -> Marks:
    """Return the files that were whole; none where there is no inventory, or it is not one."""
    try:
        text = read_small(folder / INVENTORY, _LIMIT_BYTES).decode(errors="surrogateescape")
    except OSError:
        return {}
    first, _, rest = text.partition("\n")
    if first != _FIRST_LINE:
        return {}
    marks = {}
    for line in rest.split("\n"):
        try:
            size, mtime_ns, path = line.split(" ", 2)
            marks[path] = (int(size), int(mtime_ns))
        except ValueError:
            continue
    return marks
