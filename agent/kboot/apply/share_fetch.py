"""How does a node get its part of files that other nodes fetch whole, and what if none of them gives it?"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait

from kboot.apply.outcome import Effect, carry_out
from kboot.apply.pace import Throttle
from kboot.apply.share_publish import Publisher
from kboot.checkpoint import Listing
from kboot.checks.words import count
from kboot.errors import ActionFailed, FactMissing, KbootError, SourceError, VerificationFailed
from kboot.events import Emit, FileDone, FileProgress, FileTrouble, Notice
from kboot.host.clock import monotonic_s
from kboot.host.pagecache import new_buffer
from kboot.pieces import PIECE_BYTES, Pieces, runs_of
from kboot.plan.memory.tensors import HeaderNotValid
from kboot.plan.shares import needed_pieces
from kboot.plan.types import FetchFile, FetchShare
from kboot.quantities import show_bytes
from kboot.report.types import Outcome
from kboot.sources.headers import local_headers
from kboot.sources.peers import Peer, pieces_target
from kboot.sources.stopping import interrupted_by
from kboot.store.digests import read_document
from kboot.store.shares import Filling
from kboot.store.store import Store
from kboot.values import dataclass

_STREAMS = 8
_LOOK_S = 0.3
_TELL_S = 0.25
_QUIET_S = 30.0  # a node that has not got on for so long is said to be waited for
_TRIES = 3  # of one node for one file, without a piece in between
_ROUNDS = 5  # of a file, each time that nodes which publish it did not give it
_RUN_BYTES = 64 << 20  # asked for at once

Whole = Callable[[Sequence[FetchFile]], Sequence[Outcome]]


@dataclass(frozen=True, slots=True)
class Sharing:
    """A node's dealings with those that serve together with it. peers: the others, by name.

    patience_s: how long a node is waited for that does not get on.
    """

    peers: Mapping[str, Peer]
    publisher: Publisher
    patience_s: float


def fetch_shares(
    actions: Sequence[FetchShare],
    listing: Listing,
    store: Store,
    sharing: Sharing,
    whole: Whole,
    throttle: Throttle,
    emit: Emit,
    stop: threading.Event,
) -> tuple[Outcome, ...]:
    """Return an outcome for each action, in their order.

    A file is taken from any node that publishes digests of it. Where none does for as long as its holder does not get
    on, where two contradict each other, or where what comes is wrong, the file is fetched whole from the profile's
    sources and proven by its own hash. whole: does that.
    """
    run = _Run(tuple({a.file.blob_id: a for a in actions}.values()), listing, store, sharing, throttle, emit, stop)
    with interrupted_by(stop, list(sharing.peers.values())):
        run.run()
    for peer in sharing.peers.values():
        peer.close()
    left = [action for action in actions if action.file.blob_id not in run.done]
    fetched: dict[str, Outcome] = {}
    if left and not stop.is_set():
        reason = "no other node gave this node's part of it, proven"
        sharing.publisher.publish(action.file for action in left)
        outcomes = whole([FetchFile(action.file, 0, reason, alone=True) for action in left])
        fetched = {action.file.path: outcome for action, outcome in zip(left, outcomes, strict=True)}
    found = (run.done.get(action.file.blob_id) or fetched.get(action.file.path) for action in actions)
    return tuple(o or carry_out("fetch", a, _interrupted) for a, o in zip(actions, found, strict=True))


def _interrupted() -> Effect:
    raise ActionFailed("interrupted", "kboot was stopped", hint="run it again: it goes on from there")


class _Run:
    """One run: the calling thread asks who publishes what, a few others receive."""

    def __init__(
        self,
        actions: Sequence[FetchShare],
        listing: Listing,
        store: Store,
        sharing: Sharing,
        throttle: Throttle,
        emit: Emit,
        stop: threading.Event,
    ) -> None:
        self._listing, self._store, self._sharing = listing, store, sharing
        self._throttle, self._emit, self._stop = throttle, emit, stop
        self._waiting = list(actions)
        self.done: dict[str, Outcome] = {}  # by blob id
        self._published: dict[str, Mapping[str, str]] = {name: {} for name in sharing.peers}
        self._signs: dict[str, object] = {}
        self._why: dict[str, str] = {}  # a node gave no list when it was asked last
        self._news_s = dict.fromkeys(sharing.peers, monotonic_s())
        self._told_s: dict[str, float] = {}
        self._said_at_s: dict[str, float] = {}  # of a node: its last news when it was said that it is waited for
        self._rounds: dict[str, int] = {}
        self._out: set[str] = set()  # nodes that gave wrong bytes

    def run(self) -> None:
        """Work until every file is here, or nobody is left to give it."""
        running: dict[Future[Outcome | None], FetchShare] = {}
        with ThreadPoolExecutor(_STREAMS, thread_name_prefix="share") as pool:
            while (self._waiting or running) and not self._stop.is_set():
                self._look()
                for action in [a for a in self._waiting if self._is_decided(a)]:
                    self._waiting.remove(action)
                    if nodes := self._publishers(action):
                        running[pool.submit(self._fetch, action, nodes)] = action
                over = wait(running, timeout=_LOOK_S, return_when=FIRST_COMPLETED).done if running else ()
                for future in over:
                    action, outcome = running.pop(future), future.result()
                    if outcome is not None:
                        self.done[action.file.blob_id] = outcome
                    elif self._is_tried_again(action):
                        self._waiting.append(action)
                if not running and self._waiting:
                    self._stop.wait(_LOOK_S)

    # -- who has what

    def _look(self) -> None:
        """Ask each node which files it publishes digests of."""
        target = pieces_target(self._listing.repo, self._listing.commit)
        for name, peer in self._sharing.peers.items():
            if name in self._out or not self._waiting:
                continue
            try:
                document = peer.ask(target)
                published = {str(blob): str(mark) for blob, mark in dict(document["published"]).items()}
                sign = (len(published), document["moved"])
            except SourceError as exc:
                self._why[name] = exc.message
                continue
            except (KeyError, TypeError, ValueError):
                self._why[name] = "it answers with no such list"
                continue
            self._why.pop(name, None)
            self._published[name] = published
            if self._signs.get(name) != sign:
                self._signs[name], self._news_s[name] = sign, monotonic_s()

    def _publishers(self, action: FetchShare) -> tuple[str, ...]:
        """Return who publishes digests of a file, its holder first; nobody where they contradict each other."""
        blob_id = action.file.blob_id
        names = [n for n, published in self._published.items() if blob_id in published and n not in self._out]
        if len({self._published[name][blob_id] for name in names}) > 1:
            text = f"{', '.join(sorted(names))} publish different digests of {action.file.path}: it is fetched whole"
            self._emit(Notice("digests.contradict", text))
            return ()
        return tuple(sorted(names, key=lambda name: (name != action.share.holder, name)))

    def _is_decided(self, action: FetchShare) -> bool:
        """Return whether somebody publishes the file, or its holder is not waited for any more."""
        if any(action.file.blob_id in p for n, p in self._published.items() if n not in self._out):
            return True
        holder = action.share.holder
        if holder in self._out or holder not in self._news_s:
            return True
        quiet_s = monotonic_s() - self._news_s[holder]
        why = f" ({self._why[holder]})" if holder in self._why else ""
        if quiet_s < self._sharing.patience_s:
            if quiet_s >= min(_QUIET_S, self._sharing.patience_s / 4):
                self._say_waiting(holder, f"not got on for {quiet_s:.0f} s{why}")
            return False
        text = f"{holder} publishes no digests of {action.file.path}, and has not got on for {quiet_s:.0f} s"
        self._emit(Notice("share.not_published", f"{text}{why}: the file is fetched whole"))
        return True

    def _say_waiting(self, holder: str, how: str) -> None:
        """Tell once of a node that others wait for, until it gets on again."""
        if self._said_at_s.get(holder) == self._news_s[holder]:
            return
        self._said_at_s[holder] = self._news_s[holder]
        files = count(sum(a.share.holder == holder for a in self._waiting), "file")
        until = f"{self._sharing.patience_s:.0f} s in all, then they come whole from the origin"
        self._emit(Notice("share.waited_for", f"{holder}, which holds {files}, has {how}; it is given {until}"))

    def _is_tried_again(self, action: FetchShare) -> bool:
        """Return whether a file that nobody gave is waited for again: a node that starts anew is away for a moment."""
        blob_id = action.file.blob_id
        rounds = self._rounds[blob_id] = self._rounds.get(blob_id, 0) + 1
        if rounds >= _ROUNDS or action.share.holder in self._out:
            return False
        for name, published in self._published.items():  # until it says so again
            self._published[name] = {blob: mark for blob, mark in published.items() if blob != blob_id}
        return True

    # -- one file

    def _fetch(self, action: FetchShare, nodes: Sequence[str]) -> Outcome | None:
        """Return the outcome; None where the nodes do not give it, so that it is to be fetched whole."""
        outcome = carry_out("fetch", action, lambda: self._from_nodes(action, nodes))
        if outcome.error is None:
            size, reused = action.share.size_bytes, max(0, action.share.size_bytes - outcome.size_bytes)
            self._emit(FileDone("fetch", action.file.path, size, outcome.seconds, outcome.source, reused))
            return outcome
        if isinstance(outcome.error, SourceError | VerificationFailed):
            return None
        return outcome

    def _from_nodes(self, action: FetchShare, nodes: Sequence[str]) -> Effect:
        """Take what is missing from one node after the other.

        Raises:
            SourceError, VerificationFailed: none of them gives it, or gives it right. KbootError: the disk refuses.
        """
        first: KbootError | None = None
        for name in nodes:
            peer = self._sharing.peers[name]
            try:
                return self._from_node(action, peer, name)
            except (SourceError, VerificationFailed) as exc:
                first = first or exc
                if isinstance(exc, VerificationFailed):
                    self._out.add(name)
                if self._stop.is_set():
                    _interrupted()
                self._emit(
                    FileTrouble("fetch", action.file.path, exc.code, f"{exc.message} ({peer.name})", final=False)
                )
        assert first is not None, "somebody publishes it"
        raise first

    def _from_node(self, action: FetchShare, peer: Peer, name: str) -> Effect:
        listing, file = self._listing, action.file
        document = peer.ask(pieces_target(listing.repo, listing.commit, file.blob_id))
        try:
            digests = read_document(document, file, listing.commit, name)
        except ValueError as exc:
            raise SourceError("peer-answer-not-valid", f"its digests are not of this file: {exc}") from exc
        with self._store.shares.open(listing.repo, file, digests) as filling:
            wanted = action.share.pieces
            filling.pieces |= filling.prove(wanted & ~filling.pieces, lambda: not self._stop.is_set())
            try:
                self._fill(action, peer, filling, wanted)
                if more := self._more_needed(action) & ~filling.pieces:
                    self._fill(action, peer, filling, more)
            finally:
                filling.finish()
        part, size = show_bytes(action.share.size_bytes), show_bytes(file.size_bytes)
        after = f"{part} of {size}, proven by range digests of {digests.node} and not by the file's own hash"
        return Effect(after=after, size_bytes=filling.received_bytes, source=peer.name)

    def _more_needed(self, action: FetchShare) -> Pieces:
        """Return what the ranks need by the header that is here, proven: the plan's was read from anywhere."""
        path = self._store.shares.data_path(self._listing.repo, action.file.blob_id)
        try:
            header = next(local_headers([(action.file.path, path)]))
            return needed_pieces(header.json, header.data_bytes, action.share.experts)
        except (FactMissing, HeaderNotValid) as exc:  # the node vouched for bytes that are no safetensors file
            raise VerificationFailed("header-not-valid", f"{action.file.path}: {exc}") from exc

    def _fill(self, action: FetchShare, peer: Peer, filling: Filling, wanted: Pieces) -> None:
        """Receive the pieces that are missing.

        Raises:
            SourceError: the node does not give them. VerificationFailed: it gives other bytes.
        """
        file, failures, buffer = action.file, 0, new_buffer(PIECE_BYTES)
        while missing := wanted & ~filling.pieces:
            before = filling.received_bytes
            try:
                for start, end in runs_of(missing, file.size_bytes):
                    for at in range(start, end, _RUN_BYTES):
                        self._receive(action, peer, filling, at, min(end, at + _RUN_BYTES), buffer)
            except SourceError as exc:
                failures = 1 if filling.received_bytes > before else failures + 1
                if failures >= _TRIES or not exc.retry or self._stop.is_set():
                    raise
                self._stop.wait(_LOOK_S)

    def _receive(
        self, action: FetchShare, peer: Peer, filling: Filling, start: int, end: int, buffer: memoryview
    ) -> None:
        file = action.file
        with peer.open(self._listing.repo, self._listing.commit, file, start, end) as body:
            for offset in range(start, end, PIECE_BYTES):
                piece = buffer[: min(PIECE_BYTES, end - offset)]
                done = 0
                while done < len(piece):
                    n = body.readinto(piece[done:])
                    if not n:
                        raise SourceError("short-body", f"{file.path} ends at byte {offset + done}", retry=True)
                    done += n
                if not filling.write(offset // PIECE_BYTES, piece):
                    raise VerificationFailed(
                        "peer-wrong-bytes",
                        f"{peer.name} delivered wrong bytes of {file.path}, in {offset} to {offset + len(piece)}",
                    )
                self._throttle.pass_by(len(piece))
        now = monotonic_s()
        if now >= self._told_s.get(file.path, 0.0) + _TELL_S:
            self._told_s[file.path] = now
            here = action.share.have_bytes + filling.received_bytes
            self._emit(FileProgress("fetch", file.path, min(here, action.share.size_bytes), action.share.size_bytes))
