"""The steps of a bake that no boot has: kernel caches from archives, units, what the manifest says of the bytes."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from kboot.apply.cache_import import import_cache
from kboot.apply.cache_seed import seed_name
from kboot.checkpoint import CheckpointFacts, LocalFile
from kboot.errors import ActionFailed, KbootError
from kboot.events import Emit, Notice
from kboot.facts.types import CacheFacts
from kboot.host.clock import monotonic_s, run_unix_s
from kboot.host.image import ImageTree
from kboot.host.os_errors import explained
from kboot.host.pagecache import Reading, new_buffer
from kboot.host.stream import open_to_read
from kboot.host.tree import read_tree
from kboot.host.verity import enable, measure
from kboot.plan.cache import misfits
from kboot.plan.units import EnableUnit
from kboot.report.types import Outcome
from kboot.sources.download import download
from kboot.store.baked import BakedCache, BakedFile
from kboot.store.cache_archive import ArchiveList
from kboot.store.cache_files import OWN
from kboot.store.samples import SMALL_BYTES, read_samples
from kboot.store.store import Store

_BUFFER_BYTES = 1 << 20


def import_archives(
    archives: Sequence[str], wanted: Sequence[Mapping[str, str]], cache: Path, env: Mapping[str, str]
) -> tuple[Outcome, ...]:
    """Take in each archive of kernel caches that is for one of the targets, under its own key.

    archives: paths or URLs. wanted: the factors of each target, as far as they are known. One that is here and complete
    is left as it is.
    """

    def take(archive: str) -> Outcome:
        return _step(f"take in {seed_name(archive)}", "kernel caches", lambda: _take(archive, wanted, cache, env))

    return tuple(take(archive) for archive in archives)


def _take(archive: str, wanted: Sequence[Mapping[str, str]], cache: Path, env: Mapping[str, str]) -> tuple[int, str]:
    def fits(found: ArchiveList) -> tuple[str, ...]:
        return min((misfits(found.factors, factors) for factors in wanted), key=len, default=())

    try:
        if "://" in archive:
            with download(archive, env) as stream:
                taken = import_cache(stream, cache, fits)
        else:
            with open_to_read(Path(archive)) as file:
                taken = import_cache(file, cache, fits)
    except ActionFailed as exc:
        if exc.code != "cache-exists":
            raise
        return 0, exc.message
    return taken.size_bytes, taken.key


def enable_units(actions: Sequence[EnableUnit], tree: ImageTree) -> tuple[Outcome, ...]:
    """Make the links of each unit."""
    return tuple(_step(f"enable {a.name}", a.reason, partial(_link, a, tree)) for a in actions)


def _link(action: EnableUnit, tree: ImageTree) -> tuple[int, str]:
    for link in action.links:
        tree.make_link(link, action.target)
    return 0, ", ".join(f"/{link}" for link in action.links)


def _step(title: str, reason: str, work: Callable[[], tuple[int, str]]) -> Outcome:
    started_unix_s, clock_s = run_unix_s(), monotonic_s()
    error: KbootError | None = None
    size_bytes, after = 0, ""
    try:
        size_bytes, after = work()
    except KbootError as exc:
        error = exc
    return Outcome(
        phase="bake",
        title=title,
        reason=reason,
        status="failed" if error else "done",
        start_unix_s=started_unix_s,
        seconds=monotonic_s() - clock_s,
        size_bytes=size_bytes,
        after=after,
        error=error,
    )


def baked_files(checkpoint: CheckpointFacts, store: Store, emit: Emit, *, verity: bool) -> tuple[BakedFile, ...]:
    """Return what every proven file is recognised by in a copy of the image; reads a few ranges of the large ones.

    verity: let the file system prove the large ones from now on, where it can.

    Raises:
        KbootError: a file cannot be read any more.
    """
    here = [local for local in checkpoint.files if local.state == "verified"]
    if verity and not _enable(checkpoint, here, store):
        emit(Notice("verity.not_here", f"the file system of {store.paths.hub} has no fs-verity: copies are sampled"))
    return tuple(_baked_file(checkpoint, local, store) for local in here)


def _enable(checkpoint: CheckpointFacts, here: Sequence[LocalFile], store: Store) -> bool:
    """Return False as soon as the file system says that it cannot."""
    for local in here:
        large = local.file.size_bytes > SMALL_BYTES
        if large and not store.keep_proof(checkpoint.listing, local.file, enable):
            return False
    return True


def _baked_file(checkpoint: CheckpointFacts, local: LocalFile, store: Store) -> BakedFile:
    file = local.file
    blob = store.blob_path(checkpoint.listing.repo, file.blob_id)
    with explained(f"read {file.path}", blob):
        samples = read_samples(blob, file, past_cache=False)
        verity = measure(blob) or ""
    return BakedFile(file.path, file.size_bytes, file.blob_id, file.sha256, samples, verity)


def baked_caches(caches: CacheFacts, cache: Path) -> tuple[BakedCache, ...]:
    """Return every folder of kernel caches in the image, with one hash over the content of its files."""
    return tuple(_baked_cache(key, caches, cache / key) for key in sorted(caches.factors_of))


def _baked_cache(key: str, caches: CacheFacts, folder: Path) -> BakedCache:
    files = sorted(read_tree(folder, skip=OWN).files)
    whole = hashlib.sha256(usedforsecurity=False)
    for file in files:
        with explained("read the kernel cache", folder / file.path):
            whole.update(f"{file.path}\0{_hash(folder / file.path)}\n".encode(errors="surrogateescape"))
    size_bytes = sum(file.size_bytes for file in files)
    return BakedCache(key, caches.factors_of[key], key in caches.complete, len(files), size_bytes, whole.hexdigest())


def _hash(path: Path) -> str:
    content = hashlib.sha256(usedforsecurity=False)
    with Reading(path, new_buffer(_BUFFER_BYTES)) as reading:
        for data in reading:
            content.update(data)
    return content.hexdigest()
