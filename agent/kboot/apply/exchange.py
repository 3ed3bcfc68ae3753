"""What does a fetch receive from the origin, what from which node, and who is to blame for bytes that were wrong?"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence

from kboot.apply.exchange_view import PATIENCE, Limit, Limits, Patience, View
from kboot.apply.fetch_work import Chosen, Claim, Job
from kboot.apply.fleet_list import LookUp
from kboot.apply.peer_board import Board
from kboot.errors import SourceError, VerificationFailed
from kboot.events import Emit
from kboot.host.clock import monotonic_s
from kboot.plan.exchange import ORIGIN, Want, choose
from kboot.plan.ownership import Pieces, range_of, touched
from kboot.sources.peers import Peer
from kboot.store.partial import Partial
from kboot.store.ranges import Ranges, add, gaps, subtract

_IDLE_S = 0.1
"""Where there was nothing to pick, waiting streams do not all look again at once, unless there is news."""

_PROVES_BYTES = 1 << 20
"""A node that gave so much in one go gives; the rest of what it gave up before shows nothing."""

_ORPHAN_S = 120.0
"""A file that the origin refuses is waited for so long while no other node gets anything new."""


Suspect = tuple[Job, Partial, VerificationFailed]
"""A file that came wrong, and what was found."""


class Exchange:
    """One fetch's dealings with the fleet. For any thread.

    The pool calls pick() with its lock held; nothing here calls the pool while holding a lock of its own.
    """

    def __init__(
        self,
        me: str,
        peers: Mapping[str, Peer],
        board: Board,
        emit: Emit,
        patience: Patience = PATIENCE,
        look_up: LookUp | None = None,
    ) -> None:
        """Make one; follow() begins to ask the others. me, peers: by the names that all use. look_up: see View."""
        self.board = board
        self._view = View(me, peers, board, emit, patience)
        self._look_up = look_up
        self._lock = threading.Lock()  # of all below
        self._receiving: dict[Job, list[Claim]] = {}  # from the origin
        self._free: dict[Job, tuple[list[tuple[int, int]], Pieces]] = {}
        self._refused: dict[Job, SourceError] = {}
        self._alone: set[Job] = set()  # received from the origin only, and compared with what peers gave
        self._given: dict[Job, dict[str, Ranges]] = {}
        self._suspect: list[Suspect] = []
        self._checking: Job | None = None
        self._idle_until_s = 0.0

    def follow(self, wake: Callable[[], None], limits: Limits, limit: Limit, moved_bytes: Callable[[], int]) -> None:
        """Begin to ask the others what they have. See View. moved_bytes: what this node has received so far."""
        self.board.gave_up, self.board.moved_bytes = False, moved_bytes

        def look() -> None:
            self._idle_until_s = 0.0
            wake()

        self._view.follow(look, limits, limit, self._look_up)

    def end(self) -> None:
        """Ask no more."""
        moved_bytes = self.board.moved_bytes()
        self.board.gave_up, self.board.moved_bytes = True, lambda: moved_bytes
        self._view.end()

    @property
    def view(self) -> View:
        """What is known of the others."""
        return self._view

    # -- receiving

    def opened(self, job: Job, missing: Ranges, trusted: bool) -> None:
        """Give out what an earlier run left of a file. trusted: its journal vouches for that."""
        file = job.action.file
        self.board.opened(file.blob_id, gaps(missing, file.size_bytes) if trusted else ())

    def pick(self, jobs: Sequence[Job]) -> Chosen | None:
        """Return what a stream is to receive next; the claim of it is told to began()."""
        now = monotonic_s()
        if now < self._idle_until_s or not self._view.is_known:
            return None
        with self._lock:
            for job in jobs:
                if job in self._alone and job.free and job not in self._refused:
                    return Chosen(job, *self._in(job, self._lowest(job)), None)
            by_blob = {job.action.file.blob_id: job for job in jobs if job.free and job not in self._alone}
            wants = tuple(self._want(job) for job in by_blob.values())
            from_origin = sum(len(claims) for claims in self._receiving.values())
        pick = choose(wants, self._view.fleet(from_origin)) if wants else None
        if pick is None:
            self._idle_until_s = now + _IDLE_S
            return None
        job = by_blob[pick.blob_id]
        source = None if pick.source == ORIGIN else self._view.peer(pick.source)
        return Chosen(job, *self._in(job, pick.piece), source, pick.source)

    def began(self, claim: Claim) -> None:
        """Take in that a stream receives a range from now on."""
        if claim.node:
            self._view.busy(claim.node, 1)
            return
        with self._lock:
            self._receiving.setdefault(claim.job, []).append(claim)
            self._tell_fetching(claim.job)

    def ended(self, claim: Claim) -> None:
        """Take in what a stream received of a range."""
        blob_id, came = claim.job.action.file.blob_id, claim.position > claim.start
        self._idle_until_s = 0.0
        if came:
            self._view.moved()
        with self._lock:
            if claim.node:
                given = self._given.setdefault(claim.job, {})
                given[claim.node] = add(given.get(claim.node, ()), claim.start, claim.position)
            else:
                if came:
                    self.board.arrived(blob_id, claim.start, claim.position)
                self._receiving[claim.job].remove(claim)
                self._tell_fetching(claim.job)
        if claim.node:
            self._view.busy(claim.node, -1)
            if claim.position == claim.end and claim.end - claim.start >= _PROVES_BYTES:
                self._view.gave(claim.node)

    def failed(self, claim: Claim, error: SourceError) -> None:
        """Take in that a node did not give all of a range."""
        self._view.failed(claim.node, claim.job.action.file.blob_id, error)

    def too_slow(self, claim: Claim) -> None:
        """Take in that a node gives a range far more slowly than others give theirs."""
        self._view.avoid(claim.node)

    def refused(self, job: Job, error: SourceError) -> None:
        """Take in that the origin gives a file no more: what is missing can only come from the others."""
        with self._lock:
            self._refused.setdefault(job, error)

    def orphans(self) -> tuple[tuple[Job, SourceError], ...]:
        """Return the files that the origin refuses and that no other node will bring."""
        if not self._refused or self._view.quiet_s() < _ORPHAN_S:
            return ()
        with self._lock:
            return tuple(self._refused.items())

    def proven(self, job: Job) -> None:
        """Give out a whole file."""
        self.board.proven(job.action.file.blob_id)

    def thrown_away(self, job: Job, start: int, end: int) -> None:
        """Give out a range no more: it was wrong, and its bytes go."""
        self.board.withdraw(job.action.file.blob_id, start, end)
        with self._lock:
            given = self._given.get(job, {})
            self._given[job] = {name: subtract(ranges, start, end) for name, ranges in given.items()}

    # -- wrong bytes

    def is_compared(self, claim: Claim) -> bool:
        """Return whether what comes is to be compared with what a node gave before."""
        return claim.job in self._alone

    def differs(self, job: Job, offset: int) -> None:
        """Take in that the origin has other bytes there than a node gave: that node is out."""
        with self._lock:
            given = self._given.get(job, {})
            name = next((n for n, ranges in given.items() if any(a <= offset < b for a, b in ranges)), "")
        if name:
            path, peer = job.action.file.path, self._view.peer(name).name
            self._view.drop(name, f"{peer} delivered wrong bytes of {path}, at byte {offset}: it is asked no more")

    def doubtful(self, job: Job, partial: Partial, error: VerificationFailed) -> Ranges | None:
        """Return which ranges of a file that came wrong are to be received again, from the origin where it must be.

        What a node gave that is out by now is enough. Where nobody is known to give wrong bytes, everything that nodes
        gave is received from the origin and compared, one file at a time. None: the file waits for that. Empty: no
        node can be to blame.
        """
        with self._lock:
            given = self._given.get(job, {})
            out = [name for name in given if name in self._view.dropped()]
            ranges: Ranges = ()
            for name in out or list(given):
                for start, end in given[name]:
                    ranges = add(ranges, start, end)
            if not ranges or job in self._alone:
                return ()
            again = {self._view.peer(name).name for name in out or given}
            if not out:
                if self._checking not in (None, job):
                    self._suspect.append((job, partial, error))
                    return None
                self._checking = job
                self._alone.add(job)
            for name in out:
                del given[name]
            job.used -= again  # who is left may be to blame next
            return ranges

    def checked(self, job: Job) -> tuple[Suspect, ...]:
        """Take in that a file is settled; return those that waited for what was found out with it."""
        with self._lock:
            if self._checking is not job:
                return ()
            self._checking = None
            waited, self._suspect = tuple(self._suspect), []
            return waited

    # -- the lock is held

    def _want(self, job: Job) -> Want:
        file = job.action.file
        return Want(file.blob_id, file.size_bytes, self._pieces(job), job not in self._refused, job.action.alone)

    def _pieces(self, job: Job) -> Pieces:
        """Return the pieces that no stream has; found anew only when the list was replaced."""
        known = self._free.get(job)
        if known is None or known[0] is not job.free:
            known = self._free[job] = (job.free, touched(job.action.file.size_bytes, job.free))
        return known[1]

    def _lowest(self, job: Job) -> int:
        pieces = self._pieces(job)
        return (pieces & -pieces).bit_length() - 1

    def _in(self, job: Job, piece: int) -> tuple[int, int]:
        """Return the first free range of a piece."""
        first, last = range_of(job.action.file.size_bytes, piece)
        return next((max(start, first), min(end, last)) for start, end in job.free if start < last and end > first)

    def _tell_fetching(self, job: Job) -> None:
        file = job.action.file
        ranges = [(claim.start, claim.end) for claim in self._receiving[job]]
        self.board.fetching(file.blob_id, touched(file.size_bytes, ranges))
