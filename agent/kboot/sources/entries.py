"""Which files does a listing name, and has each a hash that can prove it? Pure."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

from kboot.checkpoint import RemoteFile, is_file_size, is_inside
from kboot.errors import SourceError
from kboot.sources.secrets import mask
from kboot.values import dataclass

_HEX = frozenset("0123456789abcdef")
_LARGE_BYTES = 16 << 20  # the Hub keeps nothing of that size in git itself


@dataclass(frozen=True, slots=True)
class Lfs:
    """What stands in large file storage, as a listing says it: any value may be of any type."""

    sha256: object
    size: object


@dataclass(frozen=True, slots=True)
class Entry:
    """A file as a listing names it: any value may be of any type. blob_id: in git."""

    path: object
    size: object
    blob_id: object
    lfs: Lfs | None = None
    xet_hash: object = None


def to_files(entries: Iterable[Entry]) -> tuple[RemoteFile, ...]:
    """Return the files of a listing, sorted by path.

    Raises:
        SourceError: "listing-without-hashes", "listing-not-valid".
    """
    files = [_to_file(entry) for entry in entries]
    paths = [file.path for file in files]
    if len(set(paths)) != len(paths):
        raise SourceError("listing-not-valid", "the listing names a file twice")
    _check_folders(paths)
    return tuple(sorted(files, key=lambda file: file.path))


def without_hashes(message: str) -> SourceError:
    """Return the error of a listing whose files could not be proven."""
    return SourceError(
        "listing-without-hashes",
        message,
        hint="ask the Hub itself for the listing; bytes may come from this endpoint all the same "
        '(sources = ["hub", "https://mirror"])',
    )


def _check_folders(paths: Iterable[str]) -> None:
    in_order = sorted(path.split("/") for path in paths)  # what is below a path follows right behind it
    for names, after in pairwise(in_order):
        if names == after[: len(names)]:
            path = "/".join(names)
            raise SourceError("listing-not-valid", f"the listing names {mask(path)!r} as a file and as a folder")


def _to_file(entry: Entry) -> RemoteFile:
    path, stored = entry.path, entry.lfs
    if not isinstance(path, str) or not is_inside(path):
        raise SourceError(
            "listing-not-valid", f"the listing names {mask(str(path)[:120])!r}, which is no plain relative path"
        )
    size = (stored.size if stored else None) or entry.size
    if not is_file_size(size):
        raise SourceError("listing-not-valid", f"the listing gives {path} the size {str(size)[:40]!r}")
    blob_id = stored.sha256 if stored else entry.blob_id
    if not _is_hex(blob_id, 64 if stored else 40) or (not stored and size >= _LARGE_BYTES):
        raise without_hashes(f"the listing has no SHA-256 for {path} ({size} bytes)")
    xet = entry.xet_hash if isinstance(entry.xet_hash, str) else None
    return RemoteFile(path, size, str(blob_id), str(blob_id) if stored else None, xet)


def _is_hex(value: object, digits: int) -> bool:
    return isinstance(value, str) and len(value) == digits and set(value) <= _HEX
