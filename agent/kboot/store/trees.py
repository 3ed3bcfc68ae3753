"""What does trees/<commit>.json say: the listing of a commit, in the form that huggingface_hub reads offline?

Only the wanted files stand under `files`: hub's offline mode asks for every file there, and for no other. The rest is
remembered under a key of our own, which hub ignores, with a digest that tells a damaged listing from a true one.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any

from kboot.checkpoint import Listing, RemoteFile, is_commit, is_file_size, is_inside
from kboot.store.layout import is_blob_id

LIMIT_BYTES = 256 << 20
"""Largest tree file that is read; the largest repositories list some ten thousand files in a few MB."""

_VERSION = 1
_XET_HASH = re.compile(r"[0-9a-f]{64}")


def encode_tree(listing: Listing) -> bytes:
    """Return the tree file of a listing."""
    files = {file.path: _entry(file) for file in listing.files}
    skipped = [list(pair) for pair in sorted(listing.skipped)]
    ours = {"repo": listing.repo, "skipped": skipped, "digest": _digest(listing.commit, files, skipped)}
    return json.dumps({"format_version": _VERSION, "files": files, "kboot": ours}, indent=1).encode()


def decode_tree(data: bytes, repo: str, revision: str, commit: str) -> Listing:
    """Return the listing that a tree file holds, written by us or by huggingface_hub.

    Raises:
        ValueError: not a tree of a known form, or not the one that was written.
    """
    try:
        tree = json.loads(data)
        if tree["format_version"] != _VERSION:
            raise ValueError(f"format_version is {tree['format_version']!r}, known is {_VERSION}")
        entries, ours = tree["files"], tree.get("kboot")
        if ours is not None and ours["digest"] != _digest(commit, entries, ours["skipped"]):
            raise ValueError("its digest does not fit its files")
        skipped = tuple((str(path), str(why)) for path, why in ours["skipped"]) if ours else ()
        files = tuple(_file(path, entry) for path, entry in sorted(entries.items()))
    except (KeyError, TypeError, AttributeError, RecursionError) as exc:
        raise ValueError(f"not a tree of a commit: {type(exc).__name__} at {exc}") from exc
    if not is_commit(commit):
        raise ValueError(f"{commit!r} is not a commit")
    return Listing(repo, revision, commit, files, skipped, "listing on this disk")


def pointer_id(sha256: str, size_bytes: int) -> str:
    """Return the git blob SHA-1 of the LFS pointer that stands in the repository for a file."""
    pointer = f"version https://git-lfs.github.com/spec/v1\noid sha256:{sha256}\nsize {size_bytes}\n".encode()
    return hashlib.sha1(b"blob %d\0" % len(pointer) + pointer, usedforsecurity=False).hexdigest()


def _entry(file: RemoteFile) -> dict[str, object]:
    if file.sha256 is None:
        entry: dict[str, object] = {"size": file.size_bytes, "blob_id": file.blob_id}
    else:
        oid = pointer_id(file.sha256, file.size_bytes)
        entry = {"size": file.size_bytes, "blob_id": oid, "lfs_sha256": file.sha256, "lfs_size": file.size_bytes}
    if file.xet_hash and _XET_HASH.fullmatch(file.xet_hash):  # hub drops the whole tree for one bad hash
        entry["xet_hash"] = file.xet_hash
    return entry


def _file(path: str, entry: Mapping[str, Any]) -> RemoteFile:
    sha256 = entry.get("lfs_sha256")
    size = entry["size"] if sha256 is None else entry["lfs_size"]
    blob_id = entry["blob_id"] if sha256 is None else sha256
    xet = entry.get("xet_hash")
    if not is_inside(path):
        raise ValueError(f"{path[:200]!r} is no plain relative path")
    if not is_file_size(size) or not isinstance(blob_id, str) or not is_blob_id(blob_id):
        raise ValueError(f"{path}: size {size!r}, hash {blob_id!r}")
    return RemoteFile(path, size, blob_id, sha256, xet if isinstance(xet, str) else None)


def _digest(commit: str, files: object, skipped: object) -> str:
    canonical = json.dumps([commit, files, skipped], sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()
