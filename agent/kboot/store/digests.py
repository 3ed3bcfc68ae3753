"""What do the pieces of a proven file hash to, so that some of them can be proven without the others?"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from kboot.checkpoint import RemoteFile
from kboot.errors import ActionFailed, VerificationFailed
from kboot.host.os_errors import explain_os_error
from kboot.host.pagecache import Reading, new_buffer
from kboot.pieces import PIECE_BYTES, piece_count
from kboot.values import dataclass

_SCHEMA = 1
_DIGEST_BYTES = 32
_BUFFER_BYTES = 512 << 10


@dataclass(frozen=True, slots=True)
class Digests:
    """SHA-256 of each piece of one file, one after the other, and who says so."""

    blob_id: str
    size_bytes: int
    commit: str
    node: str
    digests: bytes

    @property
    def mark(self) -> str:
        """What all of them hash to: two nodes with the same file have the same."""
        return hashlib.sha256(self.digests).hexdigest()

    def fits(self, piece: int, data: memoryview) -> bool:
        """Return whether these are the bytes of a piece."""
        wanted = self.digests[piece * _DIGEST_BYTES : (piece + 1) * _DIGEST_BYTES]
        return hashlib.sha256(data).digest() == wanted


def document_of(digests: Digests) -> dict[str, Any]:
    """Return what is kept, and told to the other nodes."""
    return {
        "schema": _SCHEMA,
        "kind": "pieces",
        "sha256": digests.blob_id,
        "size_bytes": digests.size_bytes,
        "commit": digests.commit,
        "node": digests.node,
        "piece_bytes": PIECE_BYTES,
        "digests": digests.digests.hex(),
    }


def read_document(document: Mapping[str, Any], file: RemoteFile, commit: str, node: str = "") -> Digests:
    """Return the digests of a document. node: who gave it; empty = as it says itself.

    Raises:
        ValueError: it is not about this file of this commit, or no such document.
    """
    try:
        wanted = (_SCHEMA, file.blob_id, file.size_bytes, commit, PIECE_BYTES)
        names = ("schema", "sha256", "size_bytes", "commit", "piece_bytes")
        for name, value in zip(names, wanted, strict=True):
            if document[name] != value:
                raise ValueError(f"{name} is {document[name]!r}, wanted {value!r}")
        digests = bytes.fromhex(document["digests"])
        told_by = node or str(document["node"])
    except (KeyError, TypeError) as exc:
        raise ValueError(f"it has no {exc}") from exc
    if len(digests) != piece_count(file.size_bytes) * _DIGEST_BYTES:
        raise ValueError(f"it has {len(digests) // _DIGEST_BYTES} digests, wanted {piece_count(file.size_bytes)}")
    return Digests(file.blob_id, file.size_bytes, commit, told_by, digests)


def make_digests(
    path: Path, file: RemoteFile, commit: str, node: str, on_bytes: Callable[[int], bool] = lambda _: True
) -> Digests:
    """Read a file that was proven, and hash its pieces. on_bytes: told how many bytes it has read; False stops.

    Raises:
        ActionFailed: code "interrupted", or the disk cannot read it.
        VerificationFailed: it is not as long as listed, or changed while it was read.
    """
    found, hashed, done = bytearray(), hashlib.sha256(), 0
    try:
        with Reading(path, new_buffer(_BUFFER_BYTES)) as reading:
            before = reading.identity()
            for data in reading:
                at = 0
                while at < len(data):
                    some = data[at : at + PIECE_BYTES - done % PIECE_BYTES]
                    hashed.update(some)
                    at, done = at + len(some), done + len(some)
                    if done % PIECE_BYTES == 0 or done == file.size_bytes:
                        found += hashed.digest()
                        hashed = hashlib.sha256()
                if not on_bytes(done):
                    raise ActionFailed("interrupted", f"{file.path}: stopped at {done} bytes")
            after = reading.identity()
    except OSError as exc:
        raise explain_os_error(exc, f"read {file.path}", path) from exc
    if before != after or done != file.size_bytes:
        raise VerificationFailed(
            "file-changed-while-read", f"{file.path}: another process changed it while it was read"
        )
    return Digests(file.blob_id, file.size_bytes, commit, node, bytes(found))
