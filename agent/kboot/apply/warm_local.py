"""What of the files on this disk do this node's ranks load, and how much of that is in memory?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from kboot.checkpoint import CheckpointFacts, LocalFile
from kboot.errors import FactMissing
from kboot.events import Emit, Notice
from kboot.host.pagecache import resident_in
from kboot.plan.local_ranges import Loaded, Ranges, loaded_by, ranges_of, saved_bytes
from kboot.plan.memory.model import Model
from kboot.plan.memory.tensors import HeaderNotValid
from kboot.profile.types import LayoutAsk
from kboot.quantities import show_bytes
from kboot.sources.headers import local_headers
from kboot.store.store import Store

_SUFFIX = ".safetensors"


def with_loaded_ranges(
    checkpoint: CheckpointFacts, store: Store, layout: LayoutAsk, node_rank: int, model: Model | None, emit: Emit
) -> CheckpointFacts:
    """Return the checkpoint with the stretches that the ranks of this node load, where that is not everything.

    Only files that are on this disk already: what is fetched is in memory when it has landed.
    """
    loaded = loaded_by(layout, node_rank, model.experts, len(model.layers)) if model is not None else None
    here = [f for f in checkpoint.files if f.is_readable and f.file.path.endswith(_SUFFIX)]
    if loaded is None or not here:
        return checkpoint
    try:
        found = _ranges(here, checkpoint, store, loaded)
    except (FactMissing, HeaderNotValid) as exc:
        emit(Notice("warm.whole_files", f"which bytes this node's ranks load is not known, so all are warmed: {exc}"))
        return checkpoint
    sizes = {local.file.path: local.file.size_bytes for local in here}
    left = show_bytes(saved_bytes(found, sizes))
    emit(Notice("warm.local_share", f"{left} of {show_bytes(sum(sizes.values()))} are for other nodes: not warmed"))
    return replace(checkpoint, files=tuple(_with(f, found, checkpoint, store) for f in checkpoint.files))


def _ranges(here: list[LocalFile], checkpoint: CheckpointFacts, store: Store, loaded: Loaded) -> Mapping[str, Ranges]:
    repo = checkpoint.listing.repo
    paths = [(local.file.path, store.content_path(repo, local.file)) for local in here]
    return {header.path: ranges_of(header.json, header.data_bytes, loaded) for header in local_headers(paths)}


def _with(local: LocalFile, found: Mapping[str, Ranges], checkpoint: CheckpointFacts, store: Store) -> LocalFile:
    ranges = found.get(local.file.path)
    if not ranges:
        return local
    try:
        resident = resident_in(store.content_path(checkpoint.listing.repo, local.file), ranges)
    except OSError:  # gone since it was looked at: not measured
        resident = None
    return replace(local, loaded=ranges, resident_bytes=resident)
