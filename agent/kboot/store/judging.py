"""What is a file under its final name, by what the ledger knows of it? Pure."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

from kboot.checkpoint import FileState, LocalFile, RemoteFile
from kboot.store.ledger import Mark, Row


def judged(file: RemoteFile, found: Mark, row: Row | None) -> LocalFile:
    """Return the state of a file of the right size that has this mark. row: what the ledger knows of it."""
    local = LocalFile(file, *_judge(found, row))
    if row is None or not row.mark.same_file(found):
        return local
    return replace(local, of_image=row.how) if row.how in ("samples", "verity") else local


def _judge(found: Mark, row: Row | None) -> tuple[FileState, int, float | None, None, str]:
    """Return state, bytes, when verified, residency (not measured) and why, of a file of the right size."""
    size = found.size_bytes
    if row is None:
        return "present", size, None, None, "never hashed on this node"
    difference = row.mark.difference(found)
    if row.how == "damaged":
        return ("present" if difference else "damaged"), size, None, None, row.detail
    if row.how == "quick":
        return "present", size, None, None, "its structure was checked, its bytes were never hashed on this node"
    if row.how in ("samples", "verity") and not difference:
        return "present", size, None, None, f"compared with its image ({row.how}), never hashed on this node"
    if difference:
        return (
            "present",
            size,
            None,
            None,
            f"{difference} changed since it was hashed on {datetime.fromtimestamp(row.unix_s, UTC):%Y-%m-%d}",
        )
    return "verified", size, row.unix_s, None, ""
