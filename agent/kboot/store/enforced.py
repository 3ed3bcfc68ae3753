"""Which proven files does the kernel prove at every read (fs-verity), by the digest they had when they were hashed?

It is written in the detail of a proven file's row, so that a file whose digest went away, or became another one, counts
as not proven.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from kboot.checkpoint import LocalFile
from kboot.host.verity import measure
from kboot.store.ledger import Row

_ENFORCED = "fs-verity "  # and the digest


def with_proof(local: LocalFile, row: Row | None, blob: Path) -> LocalFile:
    """Return the file with what its proof is worth by now, where the kernel was to see to it."""
    if local.state != "verified" or row is None or not row.detail.startswith(_ENFORCED):
        return local
    if row.detail == enforced_by(blob):
        return replace(local, enforced=True)
    return replace(local, state="present", verified_unix_s=None, why="its fs-verity digest is not the one it had")


def enforced_by(blob: Path) -> str:
    """Return what the ledger says of a file that the kernel proves: by which digest; empty for any other."""
    try:
        digest = measure(blob)
    except OSError:
        return ""
    return _ENFORCED + digest if digest else ""
