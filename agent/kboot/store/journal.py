"""Which bytes of a partial may be trusted to be on the disk? Three slots beside it, each written in one piece.

Slots A and B hold what is durable and are written in turn, each synced before the other is touched again: a power cut
tears at most one. Slot C holds what the page cache has as well; it is not synced and counts only while the kernel that
took the bytes is still running. Each slot is one page, so that writing one never puts another at risk.
"""

from __future__ import annotations

import json
import zlib
from dataclasses import replace
from pathlib import Path

from kboot.checkpoint import RemoteFile
from kboot.host import files
from kboot.host.blocks import BlockFile
from kboot.store.ranges import Ranges, clip, union
from kboot.values import dataclass

SUFFIX = "-journal"
_SLOT_BYTES = 4096
_SLOTS = 3
_VERSION = 1
_to_json = json.JSONEncoder(separators=(",", ":")).encode  # json.dumps would make one for every note


@dataclass(frozen=True, slots=True)
class Record:
    """One slot.

    seq: grows with each durable record. boot_id: the kernel whose page cache has `ranges`; empty = durable.
    inode: of the partial, so that a journal is never read for another file of that name.
    hashed_bytes, digest: what the first bytes hash to, to notice a disk that lost them.
    """

    seq: int
    boot_id: str
    blob_id: str
    size_bytes: int
    inode: int
    ranges: Ranges
    hashed_bytes: int
    digest: str


@dataclass(frozen=True, slots=True)
class Trusted:
    """What a new process may build on: ranges, and the digest that the first hashed_bytes must have."""

    ranges: Ranges = ()
    hashed_bytes: int = 0
    digest: str = ""
    seq: int = 0


def encode(record: Record) -> bytes:
    """Return the slot's page. Ranges that do not fit are left out, last first: they will be fetched again."""
    ranges = record.ranges
    while True:
        body = _to_json(_fields(record, ranges)).encode()
        page = b"%08x %s\n" % (zlib.crc32(body), body)
        if len(page) <= _SLOT_BYTES:
            return page.ljust(_SLOT_BYTES, b"\0")
        ranges = ranges[: max(0, min(len(ranges) - 1, len(ranges) * _SLOT_BYTES // len(page)))]


def _fields(record: Record, ranges: Ranges) -> dict[str, object]:
    return {
        "v": _VERSION,
        "seq": record.seq,
        "boot_id": record.boot_id,
        "blob_id": record.blob_id,
        "size_bytes": record.size_bytes,
        "inode": record.inode,
        "ranges": ranges,
        "hashed_bytes": record.hashed_bytes,
        "digest": record.digest,
    }


def decode(page: bytes) -> Record | None:
    """Return the slot's record; None when it is empty, torn or of another version."""
    try:
        crc, body = page.rstrip(b"\0").removesuffix(b"\n").split(b" ", 1)
        if int(crc, 16) != zlib.crc32(body):
            return None
        fields = json.loads(body)
        if fields.pop("v") != _VERSION:
            return None
        ranges = tuple((start, end) for start, end in fields.pop("ranges"))
        return Record(**fields, ranges=ranges)
    except (ValueError, TypeError, KeyError):
        return None


def judge(pages: bytes, file: RemoteFile, inode: int, length_bytes: int, boot_id: str) -> Trusted:
    """Return what of a partial may be trusted, from the journal's bytes.

    length_bytes: the partial's length now; boot_id: of the running kernel.
    """
    slots = [decode(pages[n * _SLOT_BYTES : (n + 1) * _SLOT_BYTES]) for n in range(_SLOTS)]
    fit = [r for r in slots if r and (r.blob_id, r.size_bytes, r.inode) == (file.blob_id, file.size_bytes, inode)]
    durable = max((r for r in fit if not r.boot_id), key=lambda r: r.seq, default=None)
    cached = next((r for r in fit if r.boot_id and r.boot_id == boot_id), None)
    ranges: Ranges = ()
    for record in (durable, cached):
        ranges = union(ranges, record.ranges) if record else ranges
    # The cached record may be older than the durable one, or of a hash that had not got as far.
    best = max((r for r in (durable, cached) if r), key=lambda r: r.hashed_bytes, default=None)
    return Trusted(
        clip(ranges, min(length_bytes, file.size_bytes)),
        best.hashed_bytes if best else 0,
        best.digest if best else "",
        durable.seq if durable else 0,
    )


def journal_path(part: Path) -> Path:
    """Return the journal of a partial."""
    return part.with_name(part.name + SUFFIX)


def read_pages(part: Path) -> bytes | None:
    """Return the journal's bytes; None where there is none that can be read, or whose first slot was ever written.

    A kill between making the file and writing to it leaves it empty: what it would have said is as true without it.
    """
    try:
        pages = files.read_small(journal_path(part), _SLOTS * _SLOT_BYTES)
    except OSError:
        return None
    return pages if pages.strip(b"\0") else None


class Journal:
    """The open journal of one partial; made at the first record."""

    def __init__(self, part: Path, seq: int) -> None:
        self._path = journal_path(part)
        self._seq = seq
        self._file: BlockFile | None = None

    @property
    def begun(self) -> bool:
        """Whether this process has recorded anything."""
        return self._file is not None

    def durable(self, record: Record) -> None:
        """Say what is durable now; the bytes must have been synced before. Returns when that is durable itself."""
        self._seq += 1
        numbered = replace(record, seq=self._seq, boot_id="")
        new = self._file is None
        file = self._open()
        file.write(memoryview(encode(numbered)), (self._seq % 2) * _SLOT_BYTES)
        file.sync()
        if new:
            files.fsync_dir(self._path.parent)

    def cached(self, record: Record) -> None:
        """Say what the page cache has; costs one small write and waits for nothing."""
        self._open().write(memoryview(encode(record)), 2 * _SLOT_BYTES)

    def remove(self) -> None:
        """Forget everything it says."""
        self.close()
        files.remove(self._path)

    def close(self) -> None:
        """Close it; the file stays."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _open(self) -> BlockFile:
        if self._file is None:
            self._file = BlockFile(self._path)
        return self._file
