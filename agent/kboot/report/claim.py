"""How far does a proof of the checkpoint go? One sentence that never says more than was done. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kboot.checks.words import count, in_part
from kboot.quantities import show_time

if TYPE_CHECKING:
    from kboot.checkpoint import LocalFile


def verify_claim(files: Sequence[LocalFile], since_unix_s: float, now_unix_s: float, structures: int = 0) -> str:
    """Say what is known of the files on disk and since when.

    files: all of the checkpoint, as they are now. since_unix_s: when this run began. What was hashed since was
    hashed by it, but not what has a time after now_unix_s: the clock was ahead when an earlier run hashed that.
    structures: files whose structure alone was looked at in this run.
    """
    total = len(files)
    all_files = count(total, "file")
    proven = [f for f in files if f.state == "verified"]
    vouched = [f for f in files if f.of_image in ("samples", "verity")]
    if vouched and len(proven) + len(vouched) == total:
        return _of_image(total, len(proven), vouched)
    if shared := [f for f in files if f.state == "shared"]:
        return f"{len(proven)} of {all_files} proven against the pinned commit; {in_part(shared)}"
    if len(proven) < total:
        return f"{len(proven)} of {all_files} proven against the pinned commit"
    moments = [f.verified_unix_s or 0.0 for f in proven]
    earlier = [moment for moment in moments if not since_unix_s <= moment <= now_unix_s]
    parts = []
    if len(earlier) < total:
        parts.append(f"{total - len(earlier)} of {all_files} hashed in this run")
    if earlier:
        since = show_time(min(earlier))
        parts.append(f"{len(earlier)} of {all_files} unchanged since they were hashed, the oldest {since}")
    if enforced := sum(f.enforced for f in proven):
        parts.append(f"{enforced} of {all_files} proven by the kernel at every read (fs-verity)")
    if structures:
        parts.append(f"structure of {count(structures, 'file')} looked at")
    return "; ".join(parts)


def _of_image(total: int, proven: int, vouched: Sequence[LocalFile]) -> str:
    """Say what an image vouches for; none of that was hashed here."""
    samples = sum(f.of_image == "samples" for f in vouched)
    parts = [f"{proven} of {count(total, 'file')} hashed on this node"]
    parts += [f"{samples} only compared with the image in samples, to be hashed in the background"] if samples else []
    verity = len(vouched) - samples
    parts += [f"{verity} proven by fs-verity as they are read"] if verity else []
    return "; ".join(parts)
