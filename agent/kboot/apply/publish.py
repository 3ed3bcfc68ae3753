"""How does a proven checkpoint become the one path that an engine serves from?"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from kboot.apply.outcome import Effect, carry_out
from kboot.checkpoint import Listing, LocalFile, RemoteFile
from kboot.errors import VerificationFailed
from kboot.events import Emit, Notice
from kboot.host.os_errors import explain_os_error
from kboot.plan.types import PublishCheckpoint
from kboot.report.types import Outcome
from kboot.store import structure
from kboot.store.layout import dangling_links, other_files
from kboot.store.store import Store


def publish(action: PublishCheckpoint, store: Store, emit: Emit, *, enforce: bool = False) -> Outcome:
    """Link the snapshot, write its listing and ref, and point the serving path at it; only when all is proven.

    Files that are here in part, as this node's ranks load them, are linked into a snapshot outside the Hub's folder.

    In this order: trees/<commit>.json, without which hub would not notice what is missing; the links; refs/<branch>;
    the serving path, in one step. Killed anywhere, the serving path leads to the old checkpoint or the new one.
    enforce: let the kernel prove the files at every read from now on, where the file system can (fs-verity).
    """
    return carry_out("publish", action, lambda: _publish(action, store, emit, enforce))


def _publish(action: PublishCheckpoint, store: Store, emit: Emit, enforce: bool) -> Effect:
    listing, model_path = action.listing, Path(action.model_path)
    here = store.local(listing)
    right = ("verified", "shared") if action.in_part else ("verified",)
    if unproven := [f for f in here if f.state not in right and f.of_image not in ("samples", "verity")]:
        raise _not_proven(unproven)
    _tell_others(listing, store, emit)
    if enforce:
        _enforce(listing, store, emit)
    if store.is_published(listing, model_path):
        return Effect("unchanged", before=listing.commit, after=listing.commit)
    for local in here:
        if local.state != "shared":
            _require_weights(local.file, store.blob_path(listing.repo, local.file.blob_id))
    before = store.commit_at(model_path)
    store.remember(listing)
    symlinks, shared = True, store.is_shared(listing)
    for file in store.unlinked(listing):
        if shared:
            store.shares.link(listing, file, store.blob_path(listing.repo, file.blob_id))
            continue
        kind = store.link(listing, file, symlinks=symlinks)
        if symlinks and kind != "symlink":
            symlinks = False
            emit(Notice("links.refused", f"{store.paths.hub} takes no symbolic links: snapshots are made by {kind}"))
    store.settle_links(listing)
    store.set_ref(listing)
    store.set_model(listing, model_path)
    for file in store.old_parts(listing):
        store.shares.forget(listing.repo, file.blob_id)
    return Effect(before=before, after=listing.commit)


def _require_weights(file: RemoteFile, blob: Path) -> None:
    """See from the first bytes that a shard is one, and no pointer, page or archive that was committed in its place."""
    if not file.path.endswith(".safetensors") or not file.size_bytes:
        return
    try:
        with blob.open("rb") as content:
            found = structure.header_end(content.read(structure.HEAD_BYTES), file.size_bytes)
    except OSError as exc:
        raise explain_os_error(exc, f"read {file.path}", blob) from exc
    if isinstance(found, structure.Problem):
        raise structure.published_broken(file, found)


def _enforce(listing: Listing, store: Store, emit: Emit) -> None:
    for local in store.local(listing):
        if local.state == "verified" and not local.enforced and not store.enforce(listing, local.file):
            text = f"the file system of {store.paths.hub} has no fs-verity: it does not prove files when they are read"
            emit(Notice("verity.not_here", text))
            return


def _tell_others(listing: Listing, store: Store, emit: Emit) -> None:
    """Name what stands in the snapshot beside the wanted files: an engine may read it, and nobody proved it."""
    snapshot = store.snapshot_path(listing)
    others = other_files(snapshot, {file.path for file in listing.files})
    dangling = set(dangling_links(snapshot)) & set(others)
    if others:
        some = ", ".join(f"{path} (leads to nothing)" if path in dangling else path for path in others[:3])
        more = f" and {len(others) - 3} more" if len(others) > 3 else ""
        emit(Notice("snapshot.others", f"{snapshot} also holds files that kboot did not prove: {some}{more}"))


def _not_proven(files: Sequence[LocalFile]) -> VerificationFailed:
    return VerificationFailed(
        "not-proven",
        f"{len(files)} files of the checkpoint are not proven, the first is {files[0].file.path} ({files[0].state})",
        where=tuple(f"{f.file.path}: {f.why or f.state}" for f in files[:10]),
        hint="`kboot fetch` gets what is missing, `kboot verify --mode full` hashes what is here",
    )
