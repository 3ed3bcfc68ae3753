"""What of which file does this node fetch, where it is asked to fetch no more than its ranks load?"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace

from kboot.apply.weights import listed_headers
from kboot.checkpoint import WEIGHT_SUFFIXES, CheckpointFacts, LocalFile, Share
from kboot.checks.words import count
from kboot.errors import FactMissing, SourceError, VerificationFailed
from kboot.pieces import Pieces, bytes_of
from kboot.plan.group import Group
from kboot.plan.memory.model import Model
from kboot.plan.memory.tensors import HeaderNotValid
from kboot.plan.shares import holders, is_divided, local_experts, needed_pieces, why_whole
from kboot.profile.types import LayoutAsk
from kboot.quantities import show_gb_of
from kboot.sources.types import Source
from kboot.store.store import Store
from kboot.values import dataclass

_WHOLE = "fleet.fetch = local-experts is not used, every file is fetched whole"


@dataclass(frozen=True, slots=True)
class Divided:
    """checkpoint: with the share of each file that this node has not whole. said: what an operator should know."""

    checkpoint: CheckpointFacts
    said: str


def divide(
    checkpoint: CheckpointFacts,
    store: Store,
    sources: Sequence[Source],
    layout: LayoutAsk,
    group: Group,
    model: Model | None,
    stop: threading.Event | None = None,
) -> Divided:
    """Divide the files with experts among the nodes of the group; everything is fetched where that is not possible.

    Each node fetches about as many bytes of them whole as the others, and of the rest the pieces that its ranks load.
    """
    if model is None:
        why = why_whole(layout, len(group.members)) or "the headers of the checkpoint could not be read"
        return Divided(checkpoint, f"{_WHOLE}: {why}")
    experts = local_experts(layout, group.rank, len(group.members), model.experts, len(model.layers))
    if isinstance(experts, str):
        return Divided(checkpoint, f"{_WHOLE}: {experts}")
    others = [f.file.path for f in checkpoint.files if f.file.path.endswith(WEIGHT_SUFFIXES) and not _is_shard(f)]
    if others:
        return Divided(checkpoint, f"{_WHOLE}: {others[0]} is no safetensors file, so an engine reads all of it")
    try:
        needed = _needed(checkpoint, store, sources, experts, stop)
    except (FactMissing, HeaderNotValid, SourceError) as exc:
        if stop is not None and stop.is_set():
            raise
        return Divided(checkpoint, f"{_WHOLE}: which bytes this node's ranks load is not known: {exc}")
    sizes = {f.file.blob_id: f.file.size_bytes for f in checkpoint.files if f.file.path in needed}
    if not sizes:
        return Divided(checkpoint, f"{_WHOLE}: no file has experts by name")
    names = [node.name for node in group.members]
    found = _Division(store, checkpoint.listing.repo, experts, holders(sizes, names), names[group.rank])
    files = tuple(found.of(f, needed.get(f.file.path)) for f in checkpoint.files)
    return Divided(replace(checkpoint, files=files), _said(files))


def require_parts(wanted: CheckpointFacts, files: Sequence[LocalFile], store: Store) -> None:
    """Return when of each file that is here in part everything is here that this node's ranks load.

    files: what is here now.

    Raises:
        VerificationFailed: an engine would read holes.
    """
    share_of = {f.file.path: f.share for f in wanted.files}
    for local in files:
        if local.state == "shared":
            share, record = share_of[local.file.path], store.shares.record(wanted.listing.repo, local.file)
            if share is None or record is None or share.pieces & ~record.pieces:
                raise VerificationFailed(
                    "not-whole",
                    f"{local.file.path} is here in part, and not all that this node's ranks load of it",
                    where=(local.why,),
                    hint="`kboot boot` without --skip gets the rest",
                )


@dataclass(frozen=True, slots=True)
class _Division:
    store: Store
    repo: str
    experts: frozenset[int]
    holder_of: dict[str, str]
    me: str

    def of(self, local: LocalFile, needed: Pieces | None) -> LocalFile:
        """Return the file with what this node fetches of it. needed: pieces; None where it is not divided."""
        if needed is None:
            return local
        holder = self.holder_of[local.file.blob_id]
        if holder == self.me:
            return replace(local, alone=True)
        if local.is_whole:
            return local
        size_bytes = local.file.size_bytes
        record = self.store.shares.record(self.repo, local.file)
        have = bytes_of(record.pieces & needed, size_bytes) if record else 0
        return replace(local, share=Share(needed, holder, self.experts, bytes_of(needed, size_bytes), have))


def _is_shard(local: LocalFile) -> bool:
    return local.file.path.endswith(".safetensors")


def _needed(
    checkpoint: CheckpointFacts,
    store: Store,
    sources: Sequence[Source],
    experts: frozenset[int],
    stop: threading.Event | None,
) -> dict[str, Pieces]:
    """Return the pieces that the ranks load of each file that has experts by name and a SHA-256 of its own."""
    shards = [f.file for f in checkpoint.files if _is_shard(f) and f.file.sha256 is not None]
    found = {}
    for header in listed_headers(checkpoint.listing, shards, store, sources, stop):
        if is_divided(header.json):
            found[header.path] = needed_pieces(header.json, header.data_bytes, experts)
    return found


def _said(files: Sequence[LocalFile]) -> str:
    """Say how much of the checkpoint this node has or fetches, and what proves it."""
    size_bytes = sum(f.file.size_bytes for f in files)
    shares = [f.share for f in files if f.share is not None]
    here = size_bytes - sum(f.file.size_bytes for f in files if f.share) + sum(share.size_bytes for share in shares)
    return (
        f"fleet.fetch = local-experts: {show_gb_of(here, size_bytes)} ({100 * here // max(1, size_bytes)} %) "
        f"are for this node; of {count(len(shares), 'file')} it gets a part, proven by range digests of other nodes "
        "and not by the file's own hash"
    )
