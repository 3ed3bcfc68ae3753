"""What do the pieces of this node's whole files hash to? The other nodes prove their parts of them by that."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable

from kboot.apply.peer_board import Board
from kboot.checkpoint import Listing, RemoteFile
from kboot.errors import KbootError
from kboot.events import Emit, Notice
from kboot.host.clock import monotonic_s
from kboot.sources.peers import pieces_target
from kboot.store.digests import Digests, make_digests
from kboot.store.store import Store

_LOOK_S = 0.2
_AGAIN_S = 60.0  # a file whose digests could not be made is tried again
_END_S = 5.0  # a disk that hangs keeps no process from its end

Pages = dict[str, Callable[[], bytes]]


class Publisher:
    """Makes digests of files as they become whole and proven, in a thread of its own.

    Only of files whose SHA-256 this node has proven itself: what it has in part it cannot vouch for.
    """

    def __init__(self, listing: Listing, store: Store, board: Board, me: str, pages: Pages, emit: Emit) -> None:
        """Make one. board: gives the files. me: this node's name. pages: what its server answers."""
        self._listing, self._store, self._me = listing, store, me
        self._board, self._pages, self._emit = board, pages, emit
        self._lock = threading.Lock()  # of _left, _ready
        self._left: dict[str, tuple[RemoteFile, float]] = {}
        self._ready: dict[str, str] = {}
        self._hashed = 0
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        pages[pieces_target(listing.repo, listing.commit)] = self._index

    def publish(self, files: Iterable[RemoteFile]) -> None:
        """Publish digests of these files as soon as they are whole here."""
        with self._lock:
            self._left.update({f.blob_id: (f, 0.0) for f in files if f.blob_id not in self._ready})
            if self._left and self._thread is None:
                self._thread = threading.Thread(target=self._run, name="digests", daemon=True)
                self._thread.start()

    def end(self) -> None:
        """Make no more; what was made is still given."""
        self._ended.set()
        with self._lock:
            thread = self._thread
        if thread is not None:
            thread.join(_END_S)

    def _run(self) -> None:
        """Work until everything is published: while an engine serves, nothing runs here."""
        while not self._ended.wait(_LOOK_S):
            with self._lock:
                if not self._left:
                    self._thread = None
                    return
                due = [file for file, from_s in self._left.values() if from_s <= monotonic_s()]
            for file in due:
                if not self._ended.is_set() and self._store.look(self._listing.repo, file).state == "verified":
                    self._make(file)

    def _make(self, file: RemoteFile) -> None:
        listing, store = self._listing, self._store
        kept = store.shares.digests(listing.repo, file, listing.commit)
        try:
            if kept is None or kept.node != self._me:
                kept = make_digests(
                    store.blob_path(listing.repo, file.blob_id), file, listing.commit, self._me, self._on_bytes
                )
                if store.look(listing.repo, file).state != "verified":  # it is not what was proven any more
                    return
                store.shares.keep_digests(listing.repo, kept)
        except KbootError as exc:
            with self._lock:
                self._left[file.blob_id] = (file, monotonic_s() + _AGAIN_S)
            if exc.code != "interrupted":
                self._emit(Notice("digests.not_made", f"range digests of {file.path}: {exc.code}: {exc.message}"))
            return
        self._offer(kept)

    def _offer(self, digests: Digests) -> None:
        listing = self._listing
        read = self._store.shares.read_digests  # from the disk each time: together they may be 100 MB
        target = pieces_target(listing.repo, listing.commit, digests.blob_id)
        self._pages[target] = lambda: read(listing.repo, digests.blob_id)
        self._board.proven(digests.blob_id)
        with self._lock:
            self._left.pop(digests.blob_id, None)
            self._ready[digests.blob_id] = digests.mark

    def _on_bytes(self, _done: int) -> bool:
        self._hashed += 1  # a sign of life is all it is
        return not self._ended.is_set()

    def _index(self) -> bytes:
        with self._lock:
            ready = dict(self._ready)
        moved = self._board.moved_bytes() + self._hashed
        return json.dumps({"schema": 1, "kind": "published", "published": ready, "moved": moved}).encode()
