"""How is a file on a disk recognised as the one that was hashed?"""

from __future__ import annotations

from pathlib import Path

from kboot.host.files import Identity, fs_uuid
from kboot.values import dataclass


@dataclass(frozen=True, slots=True)
class Mark:
    """What a file on disk is recognised by; any write changes ctime_ns, even one that puts mtime back.

    fs: UUID of the file system, empty where unknown. dev: used only where a UUID is unknown, since device numbers
    change when a volume is attached elsewhere.
    """

    fs: str
    dev: str
    inode: str
    size_bytes: int
    mtime_ns: int
    ctime_ns: int

    def same_file(self, other: Mark) -> bool:
        """Return whether both are one unchanged file."""
        same_fs = self.fs == other.fs if self.fs and other.fs else self.dev == other.dev
        return same_fs and self._rest() == other._rest()

    def difference(self, other: Mark) -> str:
        """Return the first thing that differs, in the field's words; empty for one unchanged file."""
        if self.same_file(other):
            return ""
        names = ("inode", "size", "mtime", "ctime")
        return next((n for n, a, b in zip(names, self._rest(), other._rest()) if a != b), "file system")

    def _rest(self) -> tuple[str, int, int, int]:
        return self.inode, self.size_bytes, self.mtime_ns, self.ctime_ns


class MarkReader:
    """Turns identities into marks; looks each device's UUID up once."""

    def __init__(self) -> None:
        self._uuid_of: dict[int, str] = {}

    def mark(self, path: Path, found: Identity) -> Mark:
        """Return the mark of a file whose identity was just read."""
        if found.dev not in self._uuid_of:
            self._uuid_of[found.dev] = fs_uuid(path) or ""
        fs = self._uuid_of[found.dev]
        return Mark(fs, str(found.dev), str(found.inode), found.size_bytes, found.mtime_ns, found.ctime_ns)
