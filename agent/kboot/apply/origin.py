"""A node whose state lies elsewhere than its image: the image's copy is one more place that bytes come from."""

from __future__ import annotations

import stat
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from kboot.apply.first_boot import image_of
from kboot.errors import KbootError
from kboot.events import Emit, Notice
from kboot.host.clock import monotonic_s
from kboot.host.paths import Paths
from kboot.plan.origin import LAZY_STREAMS, Origin, choose_origin, is_lazy
from kboot.sources.local import Local
from kboot.store.store import Store
from kboot.values import dataclass

if TYPE_CHECKING:
    from kboot.checkpoint import CheckpointFacts, Listing, RemoteFile
    from kboot.sources.types import Source
    from kboot.store.baked import Baked

IMAGE_STATE = "/var/lib/kboot"
"""Where an image has its state, unless KBOOT_IMAGE_DIR says otherwise."""

_BUDGET_S = 1.0
_STREAMS = 16
_PIECE_BYTES = 1 << 20
_WORTH_MEASURING_BYTES = 64 << 20
_SAMPLED_FILES = 32


@dataclass(frozen=True, slots=True)
class ImageCopy:
    """The state folder of the image, beside the one that this node uses."""

    image: Baked
    paths: Paths

    @property
    def source(self) -> tuple[Source, ...]:
        """Return the copy as a place that bytes come from; it is believed nothing that its hash does not prove."""
        return (Local(str(self.paths.hub)),)

    def lend_listing(self, store: Store) -> None:
        """Let the node know the image's commit without asking anybody, where it does not yet."""
        if store.known_listing(self.image.repo, self.image.commit) is None:
            listing = Store(self.paths).known_listing(self.image.repo, self.image.commit)
            if listing is not None:
                store.remember(listing)

    def among(self, sources: Sequence[Source], checkpoint: CheckpointFacts, emit: Emit) -> tuple[Source, ...]:
        """Return the sources with the image's copy, first or last by what both give now."""
        if not checkpoint.missing_bytes or checkpoint.listing.commit != self.image.commit:
            return tuple(sources)
        if not sources:
            return self.source
        origin = self._measure(sources[0], checkpoint)
        emit(Notice("image.origin", f"the state folder is empty or not whole: what it lacks is {origin.why}"))
        return (*self.source, *sources) if origin.choice == "image" else (*sources, *self.source)

    def _measure(self, source: Source, checkpoint: CheckpointFacts) -> Origin:
        missing = [f.file for f in checkpoint.files if f.state in ("absent", "partial", "damaged")]
        missing.sort(key=lambda file: (-file.size_bytes, file.path))
        if checkpoint.missing_bytes < _WORTH_MEASURING_BYTES:
            return Origin("image", "copied from the image: it is little")
        blobs = [Store(self.paths).blob_path(self.image.repo, file.blob_id) for file in missing]
        image = _image_rate([blob for blob in blobs if blob.is_file()][:_SAMPLED_FILES])
        network = _network_rate(source, checkpoint.listing, missing[0])
        return choose_origin(image, network, checkpoint.missing_bytes)


def image_copy(paths: Paths, environ: Mapping[str, str], emit: Emit) -> ImageCopy | None:
    """Return the image's own state folder where this node uses another one; None where there is no such."""
    state = Path(environ.get("KBOOT_IMAGE_DIR") or IMAGE_STATE)
    if state == paths.state:
        return None
    there = Paths(state, paths.runtime, paths.config)
    image = image_of(there, emit)
    return ImageCopy(image, there) if image else None


def plain_copies(store: Store, checkpoint: CheckpointFacts, emit: Emit) -> tuple[Source, ...]:
    """Return the snapshot itself as a place that bytes come from, where files stand in it instead of links to blobs.

    So it looks after a copy that followed links (`cp -L`, an object store), and where the Hub's client found a file
    system without links. It is believed nothing that its hash does not prove.
    """
    folder = store.folder(checkpoint.listing.repo).snapshot(checkpoint.listing.commit)
    missing = [f.file for f in checkpoint.files if f.state in ("absent", "partial")]
    copies = sum(_is_plain_copy(folder / file.path, file) for file in missing)
    if not copies:
        return ()
    emit(Notice("snapshot.copies", f"{copies} of {len(missing)} missing files stand in {folder}: a fetch takes them"))
    return (Local(str(folder)),)


def _is_plain_copy(path: Path, file: RemoteFile) -> bool:
    try:
        found = path.lstat()
    except OSError:
        return False
    return stat.S_ISREG(found.st_mode) and found.st_size == file.size_bytes


def lazy_streams(blobs: Sequence[Path], emit: Emit) -> int | None:
    """Return how many files to read at once where the volume still fetches its blocks; None on any other."""
    from kboot.host.first_reads import first_reads

    found = None
    with suppress(OSError):  # it will be told when its turn comes
        found = first_reads(blobs, 2 * _STREAMS, _BUDGET_S)
    if found is None or not is_lazy(*found):
        return None
    first_ms, second_ms = found[1] * 1000, found[2] * 1000
    emit(
        Notice(
            "volume.lazy",
            f"blocks of this volume come from a snapshot when they are first read ({first_ms:.0f} ms, then "
            f"{second_ms:.1f} ms): {LAZY_STREAMS} files are read at once",
        )
    )
    return LAZY_STREAMS


def _image_rate(blobs: Sequence[Path]) -> float | None:
    from kboot.host.read_rate import read_past_cache

    with suppress(OSError):
        size_bytes, seconds = read_past_cache(blobs, _STREAMS, _BUDGET_S)
        return size_bytes / seconds if size_bytes and seconds else None
    return None


def _network_rate(source: Source, listing: Listing, file: RemoteFile) -> float | None:
    """Return what one stream of a source gives for a second: fewer than a fetch opens, so an image must be as fast."""
    buffer = memoryview(bytearray(_PIECE_BYTES))
    done, started_s = 0, monotonic_s()
    try:
        with source.open(listing.repo, listing.commit, file, 0) as body:
            while count := body.readinto(buffer):
                done += count
                if monotonic_s() - started_s >= _BUDGET_S:
                    break
    except KbootError:
        return None
    return done / max(1e-6, monotonic_s() - started_s) if done else None
