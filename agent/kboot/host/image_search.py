"""Which files of a tree hold something? One walk, within bounds; what was not read is counted and told."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import field
from typing import IO, Protocol

from kboot.events import Moved, uncounted
from kboot.host.clock import monotonic_s
from kboot.host.image import FILE_FLAGS, Entry, ImageTree
from kboot.values import dataclass

Find = Callable[[bytes], str]
"""Returns what a piece of a text holds; empty for nothing."""

_PIECE_BYTES = 4 << 20
_OVERLAP_BYTES = 4096
"""Longer than anything that is looked for, but for private keys, which are known by their beginning."""

_ZSTD_WINDOW_BYTES = 128 << 20
COMPRESSED = (".bz2", ".gz", ".xz", ".zst")
_TOO_LARGE = "the ends of files that are larger than what is read of one"
_NO_MORE = "files after the bounds of the search (bytes, files or seconds) were reached"
_UNREADABLE = "files that could not be read"
_UNSEEN = "files or folders that could not be looked at"
_NOT_UNPACKED = "packed files that could not be unpacked to their end (damaged, or for more memory than there is)"
_DAMAGED: tuple[type[Exception], ...] = (OSError, EOFError, ValueError, MemoryError, lzma.LZMAError, zlib.error)


@dataclass(frozen=True, slots=True)
class SearchBounds:
    """What one search may take; of one file, `file_bytes` are read, unpacked ones counted."""

    files: int = 2_000_000
    total_bytes: int = 32 << 30
    file_bytes: int = 256 << 20
    seconds: float = 600.0


@dataclass(frozen=True, slots=True)
class Searched:
    """What a search did. passed: what was not looked at, or not to its end, and how many of each."""

    files: int = 0
    size_bytes: int = 0
    passed: Mapping[str, int] = field(default_factory=dict)


class _Readable(Protocol):
    def read(self, size: int = -1, /) -> bytes: ...


class ImageSearch:
    """One search; iterate over it once, then ask `searched`."""

    def __init__(
        self,
        tree: ImageTree,
        skip: Callable[[Entry], bool],
        choose: Callable[[Entry], Find | str],
        bounds: SearchBounds,
        moved: Moved = uncounted,
    ) -> None:
        """Prepare it. skip: folders not to look into. choose: what to look for in a file, or why it is passed by."""
        self._tree = tree
        self._skip = skip
        self._choose = choose
        self._bounds = bounds
        self._moved = moved
        self._passed: Counter[str] = Counter()
        self._files = 0
        self._size_bytes = 0

    @property
    def searched(self) -> Searched:
        """Return what was done until now."""
        return Searched(self._files, self._size_bytes, dict(sorted(self._passed.items())))

    def __iter__(self) -> Iterator[tuple[Entry, str]]:
        """Yield each file that holds something, and what."""
        deadline_s = monotonic_s() + self._bounds.seconds
        for folder, entries in self._tree.folders("", self._skip, self._missed):
            for entry in entries:
                if entry.kind != "file" or not entry.size_bytes:
                    continue
                find = self._choose(entry)
                if isinstance(find, str):
                    self._passed[find] += 1
                elif self._is_spent() or monotonic_s() >= deadline_s:
                    self._passed[_NO_MORE] += 1
                elif what := self._look_into(entry, folder, find):
                    yield entry, what

    def _missed(self, _: str) -> None:
        self._passed[_UNSEEN] += 1

    def _is_spent(self) -> bool:
        return self._files >= self._bounds.files or self._size_bytes >= self._bounds.total_bytes

    def _look_into(self, entry: Entry, folder: int, find: Find) -> str:
        name = entry.path.rpartition("/")[2]
        what = ""
        try:
            fd = os.open(name, FILE_FLAGS, dir_fd=folder)
        except OSError:
            self._passed[_UNREADABLE] += 1
            return ""
        with os.fdopen(fd, "rb", buffering=0) as file:
            self._files += 1
            self._moved(0, 1)
            try:
                what = self._find_in(file, find, entry.size_bytes)
            except OSError:
                self._passed[_UNREADABLE] += 1
            if not what and name.endswith(COMPRESSED):
                what = self._unpacked(file, name, find)
        return what

    def _unpacked(self, file: IO[bytes], name: str, find: Find) -> str:
        """Look into what a compressed file says; one that is none, or damaged, was looked at as it is."""
        try:
            file.seek(0)
            return self._find_in(_opened(file, name), find)
        except _DAMAGED + _zstd_errors(name):
            self._passed[_NOT_UNPACKED] += 1
            return ""

    def _find_in(self, file: _Readable, find: Find, size_bytes: int | None = None) -> str:
        """Return what is found. size_bytes: where this many were read, there is no more to ask for."""
        kept, left = b"", self._bounds.file_bytes
        while left > 0 and (data := file.read(min(left, _PIECE_BYTES))):
            self._size_bytes += len(data)
            self._moved(len(data), 0)
            if what := find(kept + data if kept else data):
                return what
            if len(data) == size_bytes:
                return ""
            kept, left = (kept + data)[-_OVERLAP_BYTES:], left - len(data)
        if left <= 0:
            self._passed[_TOO_LARGE] += 1
        return ""


def _opened(file: IO[bytes], name: str) -> _Readable:
    if name.endswith(".gz"):
        return gzip.GzipFile(fileobj=file)
    if name.endswith(".bz2"):
        return bz2.BZ2File(file)
    if name.endswith(".xz"):
        return lzma.LZMAFile(file)
    import zstandard

    unpacker = zstandard.ZstdDecompressor(max_window_size=_ZSTD_WINDOW_BYTES)
    return unpacker.stream_reader(file, read_across_frames=True)


def _zstd_errors(name: str) -> tuple[type[Exception], ...]:
    if not name.endswith(".zst"):
        return ()
    import zstandard

    return (zstandard.ZstdError,)
