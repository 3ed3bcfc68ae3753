"""Is a file the one that was baked, as far as that can be told without reading all of it?"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Literal

from kboot.checkpoint import RemoteFile
from kboot.host.os_errors import explained
from kboot.host.verity import measure
from kboot.store.baked import Baked, path_in, read_baked
from kboot.store.samples import first_wrong, ranges_of, read_samples
from kboot.values import dataclass


@dataclass(frozen=True, slots=True)
class Compared:
    """how: what vouches for the file; full: nothing does, every byte must be hashed. words: what was done."""

    how: Literal["full", "samples", "verity"]
    words: str = ""
    read_bytes: int = 0


def compare_with_image(state: Path, blob: Path, file: RemoteFile) -> Compared:
    """Compare a file with the manifest of the image in this state folder; reads a few ranges from the disk itself.

    A file that differs, is small, or of which the manifest says nothing is to be hashed: the hash tells what is wrong.

    Raises:
        KbootError: it cannot be read, or the manifest is damaged.
    """
    image = _image(state, _version(state))
    baked = image.file_of(file.blob_id) if image else None
    if baked is None or baked.size_bytes != file.size_bytes:
        return Compared("full")
    with explained(f"read {file.path}", blob):
        if baked.verity and measure(blob) == baked.verity:
            return Compared("verity", "fs-verity has the image's digest: every page is proven as it is read")
        ranges = ranges_of(file)
        if not ranges or first_wrong(file, baked.samples, read_samples(blob, file, past_cache=True)) is not None:
            return Compared("full")
    words = f"{len(ranges)} ranges are those of the image, its bytes were not hashed"
    return Compared("samples", words, sum(end - start for start, end in ranges))


def _version(state: Path) -> int:
    try:
        return path_in(state).stat().st_mtime_ns
    except OSError:
        return 0


@lru_cache(maxsize=2)
def _image(state: Path, version: int) -> Baked | None:  # noqa: ARG001  (another version is another manifest)
    """Return the manifest, read once for all files."""
    return read_baked(state)
