"""Fills a folder of kernel caches from an archive: all of it, proven and durable, or nothing."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Protocol, cast

from kboot.apply.cache_quarantine import quarantine_place
from kboot.apply.phase import phase_of
from kboot.errors import ActionFailed, DoesNotFit
from kboot.events import Emit, Moved, unheard
from kboot.host.bundle import SMALL_BYTES, NewTree, exchange
from kboot.host.clock import monotonic_s
from kboot.host.files import atomic_write, fsync_dir, make_dirs, remove_tree, rename
from kboot.host.locks import lock_file
from kboot.host.os_errors import explain_os_error
from kboot.host.real import RealHost
from kboot.host.sharing import engine_dir_mode, engine_file_mode
from kboot.host.tree import sync_file_system
from kboot.quantities import show_bytes
from kboot.store.cache_archive import (
    BLOCK,
    LIST_NAME,
    MAX_LIST_BYTES,
    ArchivedFile,
    ArchiveList,
    NotAnArchive,
    decode_list,
    member_name,
    read_header,
)
from kboot.store.cache_files import COMPLETE, FACTORS, write_inventory
from kboot.values import dataclass

LOCK = ".lock"
_TEMP = ".kboot-import-"
_LOCK_WAIT_S = 600.0
_PIECE_BYTES = 4 << 20
_READ_BYTES = 1 << 20
_WINDOW_BYTES = 1 << 27  # zstd's own limit for what it decompresses without being asked twice
_MARGIN_BYTES = 64 << 20

Fits = Callable[[ArchiveList], tuple[str, ...]]
"""Returns what keeps an archive from being used on this node, a phrase each ("driver is 580.82, here 590.1")."""


class Readable(Protocol):
    """A stream of bytes, read once."""

    def read(self, size: int, /) -> bytes:
        """Return up to `size` bytes, none at the end."""
        ...


@dataclass(frozen=True, slots=True)
class Imported:
    """What was taken in. replaced: where the folder that had the name lies now; empty when there was none."""

    key: str
    path: str
    complete: bool
    files: int
    size_bytes: int
    replaced: str
    seconds: float


def import_cache(stream: Readable, cache: Path, fits: Fits, *, replace: bool = False, emit: Emit = unheard) -> Imported:
    """Take the archive in below `cache`, under the name of its key.

    replace: also over a complete cache of that key, which is kept in the quarantine. At every instant the key's folder
    is the old one, the new one, or (on file systems that cannot exchange folders) for a moment not there.
    emit: hears how far it is.

    Raises:
        ActionFailed: archive-not-valid, cache-does-not-fit, cache-exists, or the disk says no. DoesNotFit: no room.
    """
    started_s = monotonic_s()
    make_dirs(cache, engine_dir_mode(cache.parent))
    with lock_file(cache / LOCK, _LOCK_WAIT_S):
        sweep_imports(cache)
        tar = _Tar(stream)
        found = tar.listing()
        _require_fit(found, fits)
        target = cache / found.key
        _require_place(target, replace)
        _require_room(found, cache)
        temp = cache / f"{_TEMP}{secrets.token_hex(6)}.tmp"
        try:
            with phase_of(emit, "unpack", found.size_bytes, len(found.files)) as moved:
                _fill(temp, found, tar, moved)
            replaced = _publish(temp, target)
        except BaseException:
            remove_tree(temp)
            raise
    seconds = monotonic_s() - started_s
    complete = found.completed_unix_s is not None
    return Imported(found.key, str(target), complete, len(found.files), found.size_bytes, replaced, seconds)


def listing_of(stream: Readable) -> ArchiveList:
    """Return what an archive holds, from its beginning alone.

    Raises:
        ActionFailed: archive-not-valid.
    """
    return _Tar(stream).listing()


def sweep_imports(cache: Path) -> int:
    """Remove what imports that were killed left; only under the lock. Return how many there were."""
    left = [path for path in cache.glob(f"{_TEMP}*.tmp") if path.is_dir()]
    for path in left:
        remove_tree(path)
    return len(left)


def _require_fit(found: ArchiveList, fits: Fits) -> None:
    differences = fits(found)
    if differences:
        raise ActionFailed(
            "cache-does-not-fit",
            f"the archive was made for another node: {differences[0]}",
            where=(*differences[1:], f"its key is {found.key}"),
            hint="kernels of another environment fail, or are wrong; export an archive on a node like this one",
        )


def _require_place(target: Path, replace: bool) -> None:
    if (target / COMPLETE).exists() and not replace:
        raise ActionFailed(
            "cache-exists",
            f"kernel cache {target.name} is here and complete",
            where=(str(target),),
            hint="--replace puts it aside and takes the archive's",
        )


def _require_room(found: ArchiveList, cache: Path) -> None:
    try:
        space = RealHost().disk_space(str(cache))
    except OSError:  # a file system that does not say; where there is no room, writing says so
        return
    need = found.size_bytes + len(found.files) * 4096 + _MARGIN_BYTES
    if need > space.free_bytes or len(found.files) * 2 > space.free_inodes > 0:
        raise DoesNotFit(
            "cache-no-room",
            f"the archive needs {show_bytes(need)} and {len(found.files):,} inodes, there are "
            f"{show_bytes(space.free_bytes)} and {space.free_inodes:,} inodes",
            where=(str(cache),),
            hint="`kboot cache gc` removes what no boot uses",
        )


def _fill(temp: Path, found: ArchiveList, tar: _Tar, moved: Moved) -> None:
    """Write every file of the archive, then what says that they are whole, and make all of it durable."""
    make_dirs(temp, engine_dir_mode(temp.parent))
    with NewTree(temp, engine_dir_mode(temp.parent), _wrong_hash) as tree:
        for file in found.files:
            mode = engine_file_mode(file.mode, temp.parent)
            tar.expect(file)
            if file.size_bytes <= SMALL_BYTES:
                tree.add(file.path, tar.small(file.size_bytes), mode, file.mtime_ns, file.sha256)
                moved(file.size_bytes, 1)
            else:
                pieces = _counted(tar.pieces(file.size_bytes), moved)
                tree.add_large(file.path, pieces, mode, file.mtime_ns, file.sha256)
                moved(0, 1)
        tar.end()
    sync_file_system(temp)
    atomic_write(temp / FACTORS, json.dumps(dict(sorted(found.factors.items())), indent=2).encode() + b"\n")
    write_inventory(temp, ((f.path, f.size_bytes, f.mtime_ns) for f in found.files))
    if found.completed_unix_s is not None:
        atomic_write(temp / COMPLETE, f"{found.completed_unix_s:.3f}\n".encode())


def _counted(pieces: Iterator[memoryview], moved: Moved) -> Iterator[memoryview]:
    for piece in pieces:
        yield piece
        moved(len(piece), 0)


def _wrong_hash(path: str) -> NotAnArchive:
    return NotAnArchive(f"the SHA-256 of {path} is not the one in its list")


def _publish(temp: Path, target: Path) -> str:
    """Give the new folder its name; return where the old one lies."""
    if not target.exists():
        rename(temp, target)
        return ""
    aside = quarantine_place(target)
    make_dirs(aside)
    if exchange(temp, target):
        fsync_dir(target.parent)
        rename(temp, aside / target.name)
    else:
        rename(target, aside / target.name)
        rename(temp, target)
    return str(aside / target.name)


class _Tar:
    """The members of an archive, read in order, handed out as views of what was decompressed."""

    def __init__(self, stream: Readable) -> None:
        import zstandard

        self._zstd_error = zstandard.ZstdError
        decompressor = zstandard.ZstdDecompressor(max_window_size=_WINDOW_BYTES)
        source = cast("IO[bytes]", stream)
        self._stream = decompressor.stream_reader(source, read_size=_READ_BYTES, read_across_frames=True)
        self._ahead = memoryview(b"")

    def listing(self) -> ArchiveList:
        """Return the first member."""
        header = read_header(self._bytes)
        if header is None or header[0] != LIST_NAME:
            raise NotAnArchive(f"its first member is not {LIST_NAME}")
        if header[1] > MAX_LIST_BYTES:
            raise NotAnArchive(f"its list has {header[1]} bytes, {MAX_LIST_BYTES} at most are read")
        return decode_list(bytes(self.small(header[1])))

    def expect(self, file: ArchivedFile) -> None:
        """Read the header of the next member, which must be this file's."""
        header = read_header(self._bytes)
        if header != (member_name(file.path), file.size_bytes):
            seen = "its end" if header is None else f"{header[0][:120]!r} of {header[1]} bytes"
            raise NotAnArchive(f"{seen} stands where its list has {file.path!r} of {file.size_bytes} bytes")

    def small(self, size_bytes: int) -> memoryview:
        """Return a member's content."""
        data = self._take(size_bytes + -size_bytes % BLOCK)[:size_bytes]
        if len(data) < size_bytes:
            raise NotAnArchive("it ends in the middle of a file")
        return data

    def pieces(self, size_bytes: int) -> Iterator[memoryview]:
        """Yield a member's content."""
        left = size_bytes
        while left:
            piece = self._take(min(left, _PIECE_BYTES))
            if not piece:
                raise NotAnArchive("it ends in the middle of a file")
            left -= len(piece)
            yield piece
        self._take(-size_bytes % BLOCK)

    def end(self) -> None:
        """Read the end; more members, or anything behind it, are an error."""
        if read_header(self._bytes) is not None:
            raise NotAnArchive("it has more members than its list")
        while rest := self._take(_READ_BYTES):
            if bytes(rest).strip(b"\0"):
                raise NotAnArchive("something follows its end")

    def _bytes(self, size_bytes: int) -> bytes:
        return bytes(self._take(size_bytes))

    def _take(self, size_bytes: int) -> memoryview:
        """Return exactly so many bytes, fewer only at the end of the stream."""
        if len(self._ahead) < size_bytes:
            self._refill(size_bytes)
        taken, self._ahead = self._ahead[:size_bytes], self._ahead[size_bytes:]
        return taken

    def _refill(self, size_bytes: int) -> None:
        """Decompress into a new buffer, behind what is left of the last one: views of that are still being written."""
        have = len(self._ahead)
        buffer = memoryview(bytearray(max(have + _PIECE_BYTES, size_bytes)))
        buffer[:have] = self._ahead
        while have < size_bytes and (more := self._read_into(buffer[have:])):
            have += more
        self._ahead = buffer[:have]

    def _read_into(self, buffer: memoryview) -> int:
        try:
            return self._stream.readinto(buffer)
        except self._zstd_error as exc:
            raise NotAnArchive(f"it cannot be decompressed: {exc}") from exc
        except OSError as exc:
            raise explain_os_error(exc, "read the archive", exc.filename or "the archive") from exc
