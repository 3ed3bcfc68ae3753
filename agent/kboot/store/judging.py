"""What is a file under its final name, by what the ledger knows of it? Pure."""

from __future__ import annotations

from datetime import UTC, datetime

from kboot.checkpoint import LocalFile, RemoteFile
from kboot.store.ledger import Row
from kboot.store.marks import Mark


def judged(file: RemoteFile, found: Mark, row: Row | None) -> LocalFile:
    """Return the state of a file of the right size that has this mark. row: what the ledger knows of it."""
    size = file.size_bytes
    if row is None:
        return LocalFile(file, "present", size, why="never hashed on this node")
    difference = row.mark.difference(found)
    if row.how == "damaged":
        return LocalFile(file, "present" if difference else "damaged", size, why=row.detail)
    if row.how == "quick":
        why = "its structure was checked, its bytes were never hashed on this node"
        return LocalFile(file, "present", size, why=why)
    if difference:
        day = datetime.fromtimestamp(row.unix_s, UTC).strftime("%Y-%m-%d")
        return LocalFile(file, "present", size, why=f"{difference} changed since it was hashed on {day}")
    if row.how in ("samples", "verity"):
        why = f"compared with its image ({row.how}), never hashed on this node"
        return LocalFile(file, "present", size, why=why, of_image=row.how)
    return LocalFile(file, "verified", size, row.unix_s)
