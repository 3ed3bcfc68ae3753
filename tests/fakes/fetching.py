"""One fetch into a folder, with everything it said and left behind."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from fakes.checkpoints import paths_in, remote
from fakes.hub import COMMIT, REPO
from kboot.apply.fetch import fetch_files
from kboot.checkpoint import Listing, RemoteFile
from kboot.events import Event, FileDone, FileTrouble, Notice
from kboot.plan.types import FetchFile
from kboot.profile.types import CheckpointAsk, FetchAsk
from kboot.report.types import Outcome
from kboot.sources import open_sources
from kboot.sources.types import Source
from kboot.store.part_trust import have_bytes
from kboot.store.store import Store

ASK = FetchAsk(attempts=3, connect_timeout_s=20.0, stall_timeout_s=30.0)
IMPATIENT = replace(ASK, stall_timeout_s=3.0)


@dataclass(frozen=True)
class Fetched:
    outcomes: tuple[Outcome, ...]
    events: list[Event]
    store: Store
    listing: Listing

    @property
    def errors(self) -> list[str]:
        """Codes of what failed, in order of the files."""
        return [o.error.code for o in self.outcomes if o.error]

    @property
    def done(self) -> list[FileDone]:
        return [e for e in self.events if isinstance(e, FileDone)]

    @property
    def notices(self) -> list[str]:
        return [e.event for e in self.events if isinstance(e, Notice)]

    @property
    def troubles(self) -> list[str]:
        """Codes of tries that failed but were not the last."""
        return [e.code for e in self.events if isinstance(e, FileTrouble) and not e.final]

    def blob(self, path: str) -> bytes | None:
        """Return the content under the file's final name; None where there is none."""
        blob = self.store.blob_path(self.listing.repo, self._file(path).blob_id)
        return blob.read_bytes() if blob.exists() else None

    def kept_bytes(self, path: str) -> int:
        """Return what a later run would build on."""
        file = self._file(path)
        return have_bytes(self.store.part_path(self.listing.repo, file.blob_id), file)

    def leftovers(self) -> list[str]:
        """Return names in the blobs folder that are not final."""
        folder = self.store.blob_path(self.listing.repo, "x").parent
        wanted = {file.blob_id for file in self.listing.files}
        return sorted(p.name for p in folder.iterdir() if p.name not in wanted)

    def _file(self, path: str) -> RemoteFile:
        return next(f for f in self.listing.files if f.path == path)


def listing_of(files: Mapping[str, bytes]) -> Listing:
    """Return what the Hub lists of these files, all of them wanted."""
    return Listing(REPO, "main", COMMIT, tuple(remote(p, files[p]) for p in sorted(files)), (), "test")


def sources_of(*urls: str, env: Mapping[str, str] | None = None, ask: FetchAsk = ASK) -> tuple[Source, ...]:
    """Open sources; the first is the operator's Hub."""
    names = ("hub", *urls[1:])
    return open_sources(CheckpointAsk(repo=REPO, sources=names), ask, {"HF_ENDPOINT": urls[0], **(env or {})})


def fetch(
    folder: Path,
    files: Mapping[str, bytes] | Listing,
    sources: Sequence[Source],
    ask: FetchAsk = ASK,
    stop: threading.Event | None = None,
    on_event: threading.Event | None = None,
) -> Fetched:
    """Fetch all files. on_event: set at the first sign of progress."""
    listing = files if isinstance(files, Listing) else listing_of(files)
    events: list[Event] = []

    def emit(event: Event) -> None:
        events.append(event)
        if on_event is not None:
            on_event.set()

    store = Store(paths_in(folder))
    actions = [FetchFile(file, 0, "not on this disk") for file in listing.files]
    outcomes = fetch_files(actions, listing, sources, store, ask, emit, stop or threading.Event(), 2)
    return Fetched(outcomes, events, store, listing)
