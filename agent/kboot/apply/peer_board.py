"""What does this node give to the others of its fleet? Ranges that it has itself from the origin, and proven files."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from kboot.checkpoint import Listing, RemoteFile
from kboot.host.range_server import Part
from kboot.plan.ownership import Pieces, all_pieces, covered
from kboot.store.ranges import Ranges, add, subtract
from kboot.store.store import Store

WHOLE = "all"
"""Stands for all pieces of a file in the document."""


@dataclass(slots=True)
class _Entry:
    """One content. ranges: of its partial, as far as it came from the origin. fetching: pieces on their way from it."""

    file: RemoteFile
    whole: bool = False
    ranges: Ranges = ()
    fetching: Pieces = 0


class Board:
    """The files of one commit, and what of them the others may have. For any thread; an empty file is nobody's to give.

    Of a file that is not whole yet only what this node had from the origin itself is given: what came from a peer was
    proven by nobody, and whoever asks for it can ask that peer.
    """

    def __init__(self, listing: Listing, store: Store, in_part: Collection[str] = ()) -> None:
        """Look at what is here. in_part: files that this node fetches a part of at most, by blob id."""
        self._in_part = frozenset(in_part)
        self.repo, self.commit = listing.repo, listing.commit
        self._store = store
        self._lock = threading.Lock()
        self._entries = {file.blob_id: _Entry(file) for file in listing.files if file.size_bytes}
        self.sizes: Mapping[str, int] = {blob: entry.file.size_bytes for blob, entry in self._entries.items()}
        self._limited: Mapping[str, float] = {}
        self.gave_up = False  # a fetch ended without everything, and none is on
        self.moved_bytes: Callable[[], int] = lambda: 0  # received so far: a sign of life between two pieces
        for local in store.local(listing):
            if local.state == "verified" and local.file.size_bytes:
                self._entries[local.file.blob_id].whole = True

    @property
    def complete(self) -> bool:
        """Whether every file is whole here that this node wants whole."""
        with self._lock:
            return self._is_complete()

    def opened(self, blob_id: str, ranges: Ranges) -> None:
        """Give out of a file only these ranges of its partial: it is not whole, or not any more."""
        with self._lock:
            if entry := self._entries.get(blob_id):
                entry.whole, entry.ranges = False, ranges

    def arrived(self, blob_id: str, start: int, end: int) -> None:
        """Give out a range of a partial: it came from the origin."""
        with self._lock:
            if entry := self._entries.get(blob_id):
                entry.ranges = add(entry.ranges, start, end)

    def withdraw(self, blob_id: str, start: int, end: int) -> None:
        """Give out a range of a partial no more: it turned out to be wrong."""
        with self._lock:
            if entry := self._entries.get(blob_id):
                entry.ranges = subtract(entry.ranges, start, end)

    def proven(self, blob_id: str) -> None:
        """Give out a whole file: it is proven and has its name."""
        with self._lock:
            if entry := self._entries.get(blob_id):
                entry.whole, entry.ranges = True, ()

    def fetching(self, blob_id: str, pieces: Pieces) -> None:
        """Say which pieces of a file are on their way from the origin, so that nobody else fetches them."""
        with self._lock:
            if entry := self._entries.get(blob_id):
                entry.fetching = pieces

    def limited(self, left_s: Mapping[str, float]) -> None:
        """Say which sources must not be asked for how long; what they told one node, they told its address."""
        with self._lock:
            self._limited = dict(left_s)

    def document(self) -> dict[str, Any]:
        """Return what the others are told; pieces as hexadecimal numbers."""
        with self._lock:
            have = {blob: _pieces_text(entry) for blob, entry in self._entries.items() if entry.whole or entry.ranges}
            fetching = {blob: f"{entry.fetching:x}" for blob, entry in self._entries.items() if entry.fetching}
            complete = self._is_complete()
            limited = dict(self._limited)
        return {
            "schema": 1,
            "kind": "peer",
            "repo": self.repo,
            "commit": self.commit,
            "complete": complete,
            "gave_up": self.gave_up and not complete,
            "have": have,
            "fetching": fetching,
            "limited_s": limited,
            "moved_bytes": self.moved_bytes(),
        }

    def _is_complete(self) -> bool:
        return all(entry.whole or blob in self._in_part for blob, entry in self._entries.items())

    def part(self, blob_id: str, start: int, end: int) -> tuple[Part, int] | None:
        """Return where bytes [start, end) of a file lie, and its size; None where they are not given."""
        with self._lock:
            entry = self._entries.get(blob_id)
            if entry is None or not 0 <= start < end <= entry.file.size_bytes:
                return None
            whole, file = entry.whole, entry.file
            inside = whole or any(a <= start and end <= b for a, b in entry.ranges)
        # A whole file is looked at again: it may have been changed or lost since.
        if not inside or (whole and self._store.look(self.repo, file).state != "verified"):
            return None
        part, blob = self._store.part_path(self.repo, blob_id), self._store.blob_path(self.repo, blob_id)
        return Part((blob,) if whole else (part, blob), start, end), file.size_bytes


def _pieces_text(entry: _Entry) -> str:
    if entry.whole:
        return WHOLE
    return f"{covered(entry.file.size_bytes, entry.ranges):x}"


def pieces_of(text: str, size_bytes: int) -> Pieces:
    """Return the pieces that a document's text stands for; never any that the file has not.

    Raises:
        ValueError: it is no such text.
    """
    every = all_pieces(size_bytes)
    return every if text == WHOLE else int(text, 16) & every
