"""Which commit is to be served, which files does it have, and what of them is on this disk?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from kboot.checkpoint import CheckpointFacts, Listing, LocalFile, RemoteFile, is_commit
from kboot.errors import SourceError, VerificationFailed
from kboot.events import Emit, Notice
from kboot.host.pagecache import resident_bytes, resident_in
from kboot.profile.types import CheckpointAsk, Profile
from kboot.sources.types import Found, Source
from kboot.store.selection import LIMIT_INDEX_BYTES, find_index, reselect, select
from kboot.store.store import Store
from kboot.store.verifier import prove


def read_checkpoint(
    profile: Profile, store: Store, sources: Sequence[Source], *, offline: bool, emit: Emit
) -> CheckpointFacts:
    """Resolve the profile's revision once and compare the commit's files with this disk.

    A pinned commit whose listing is on this disk needs no request. A branch is asked of the first trusted source that
    answers; when none does and the commit it last stood for is whole on this disk, that one is taken, with a notice.

    offline: ask nobody; what is known here is the answer, whole or not.

    Raises:
        SourceError: nobody answers, and this disk does not have the whole commit.
        KbootError: the commit has no weights that the profile leaves, or its index is broken.
    """
    listing = _resolve(profile.checkpoint, store, sources, offline, emit)
    facts = checkpoint_facts(listing, store, profile.name)
    if facts.published and profile.verify.fs_verity and store.unenforced(listing):
        return replace(facts, published=False)
    return facts


def checkpoint_facts(listing: Listing, store: Store, profile: str) -> CheckpointFacts:
    """Compare the files of a listing with this disk; asks nobody."""
    return CheckpointFacts(
        listing=listing,
        files=store.local(listing),
        snapshot_path=str(store.snapshot_path(listing)),
        published=store.is_published(listing, store.paths.models / profile),
    )


def listing_with_residency(facts: CheckpointFacts, store: Store) -> CheckpointFacts:
    """Return the facts with the page cache measured, for every file that is whole on this disk."""
    return replace(facts, files=tuple(_measured(f, store, facts.listing.repo) for f in facts.files))


def _measured(local: LocalFile, store: Store, repo: str) -> LocalFile:
    if not local.is_readable:
        return local
    path: Path = store.content_path(repo, local.file)
    try:
        resident = resident_in(path, local.loaded) if local.loaded else resident_bytes(path)
        return replace(local, resident_bytes=resident)
    except OSError:  # gone or unreadable since it was looked at: not measured
        return local


def _resolve(ask: CheckpointAsk, store: Store, sources: Sequence[Source], offline: bool, emit: Emit) -> Listing:
    known = store.known_listing(ask.repo, ask.revision)
    if offline:
        if known is None:
            raise _unknown_offline(ask)
        return _from_memory(known, ask, store, ()) or known
    if known and is_commit(ask.revision) and (listing := _from_memory(known, ask, store, sources)):
        return listing
    try:
        return _from_sources(ask, store, sources, emit)
    except SourceError as exc:
        if known is None:
            raise
        listing = _from_memory(known, ask, store, ()) or known
        return _whole_or_raise(listing, store, exc, emit)


def _whole_or_raise(listing: Listing, store: Store, exc: SourceError, emit: Emit) -> Listing:
    """Return the listing if all its files are here; else raise the first cause, with this disk's state below it."""
    files = store.local(listing)
    here = sum(f.is_readable for f in files)
    of_commit = f"{listing.repo}@{listing.commit[:12]}"
    if here < len(files):
        exc.where = (*exc.where, f"this disk has {here} of {len(files)} files of {of_commit}")
        raise exc
    emit(Notice("checkpoint.local_copy", f"{exc.message}; {of_commit} is whole on this disk and is used"))
    return listing


def _from_memory(known: Listing, ask: CheckpointAsk, store: Store, sources: Sequence[Source]) -> Listing | None:
    """Apply the profile to a listing of this disk; None where the disk does not know enough for that."""
    index = find_index(known.files)
    try:
        index_json = _content(known.repo, known.commit, index, store, sources) if index else None
    except (SourceError, VerificationFailed):
        return None
    chosen = reselect(known.files, known.skipped, index_json, ask.include, ask.exclude)
    return replace(known, files=chosen[0], skipped=chosen[1]) if chosen else None


def _from_sources(ask: CheckpointAsk, store: Store, sources: Sequence[Source], emit: Emit) -> Listing:
    source, found = _ask_first(ask, sources, emit)
    index = find_index(found.files)
    try:
        index_json = _content(found.repo, found.commit, index, store, sources) if index else None
    except SourceError as exc:
        if exc.retry or is_commit(ask.revision):
            raise
        # The history was rewritten between two requests: the branch stands for another commit by now.
        found = source.list(ask.repo, ask.revision)
        index = find_index(found.files)
        index_json = _content(found.repo, found.commit, index, store, sources) if index else None
    files, skipped = select(found.files, index_json, ask.include, ask.exclude)
    return Listing(found.repo, ask.revision, found.commit, files, skipped, source.name)


def _ask_first(ask: CheckpointAsk, sources: Sequence[Source], emit: Emit) -> tuple[Source, Found]:
    """Return the answer of the first source that may say what the hashes are.

    Where the profile names no such source, the first of the others is taken at its word, and that is said.
    """
    trusted = [source for source in sources if source.trusted]
    first: SourceError | None = None
    for source in trusted or sources:
        try:
            found = source.list(ask.repo, ask.revision)
        except SourceError as exc:
            if first is None:
                first = exc
            else:
                first.where = (*first.where, f"{source.name}: {exc.message}")
            continue
        if not source.trusted:
            emit(Notice("listing.untrusted", f"no source of the profile is a Hub: hashes are as {source.name} says"))
        return source, found
    raise first or SourceError(
        "no-source", f"the profile names no source for {ask.repo}", hint="set checkpoint.sources"
    )


def _content(repo: str, commit: str, file: RemoteFile, store: Store, sources: Sequence[Source]) -> bytes:
    """Return the proven content of a small file, from this disk or the first source that has it.

    Raises:
        SourceError: nobody has it. VerificationFailed: those who have it have something else.
    """
    if (data := store.read_proven(repo, file, LIMIT_INDEX_BYTES)) is not None:
        return data
    first: SourceError | VerificationFailed | None = None
    for source in sources:
        try:
            data = source.read(repo, commit, file, LIMIT_INDEX_BYTES)
            prove(file, data)
        except (SourceError, VerificationFailed) as exc:
            exc.where = (*exc.where, f"from {source.name}")
            first = first or exc
            continue
        return data
    raise first or SourceError("not-on-this-disk", f"{file.path} of {repo}@{commit[:12]} is not on this disk")


def _unknown_offline(ask: CheckpointAsk) -> SourceError:
    return SourceError(
        "checkpoint-unknown",
        f"this disk has no whole listing of {ask.repo} at {ask.revision}, and kboot was told to stay offline",
        hint="run once without --offline, or bake the checkpoint into the image",
    )
