"""Which stream receives which bytes? Files first, then pieces of the files that are left, so that no stream idles."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import field
from pathlib import Path
from typing import Literal, Protocol

from kboot.errors import KbootError, VerificationFailed
from kboot.host.clock import monotonic_s, run_unix_s
from kboot.plan.types import FetchFile
from kboot.sources.types import Source
from kboot.store.partial import Partial
from kboot.store.ranges import Ranges, subtract
from kboot.values import dataclass

MIN_PIECE_BYTES = 16 << 20
MAX_PIECE_BYTES = 128 << 20
_WORTH_S = 1.0  # a stream that would be done sooner than this is not helped: the help costs a connection
_KNOWN_S = 0.25  # until then a stream's rate is not known
_LOOK_AGAIN_S = 0.25
_MOST_OPEN = 256  # files at once, where what is received next is chosen among all of them

State = Literal["waiting", "open", "proven", "done", "here", "failed", "interrupted"]
"""here: another process of this node proved it first."""


@dataclass(eq=False, slots=True)
class Job:
    """One content to fetch, for every file of the commit that has it.

    free: ranges that no stream has. cut: it is fetched in pieces. used: sources that delivered bytes of this try.
    mended: where ranges that were wrong begin, and who delivered them since. failures: as in Claim, of pieces that are
    claimed again and again, by where they end. rounds: how often the whole content came and was wrong. spoiled: what is
    on the disk turned out to be wrong. The pool's lock guards all that changes.
    """

    actions: tuple[FetchFile, ...]
    part_path: Path
    state: State = "waiting"
    partial: Partial | None = None
    free: list[tuple[int, int]] = field(default_factory=list)
    claims: list[Claim] = field(default_factory=list)
    cut: bool = False
    cuttable: bool = True
    used: set[str] = field(default_factory=set)
    mended: dict[int, str] = field(default_factory=dict)
    failures: dict[int, dict[str, int]] = field(default_factory=dict)
    rounds: int = 0
    spoiled: VerificationFailed | None = None
    error: KbootError | None = None
    source: str = ""
    reused_bytes: int = 0
    started_unix_s: float = 0.0
    started_s: float = 0.0
    seconds: float = 0.0
    next_progress_s: float = 0.0

    @property
    def action(self) -> FetchFile:
        """The first action; the others fetch the same bytes."""
        return self.actions[0]

    @property
    def is_lost(self) -> bool:
        """Whether receiving more of it would be in vain."""
        return self.error is not None or self.spoiled is not None

    @property
    def left_bytes(self) -> int:
        """Bytes that no stream has received yet."""
        return sum(end - start for start, end in self.free) + sum(c.end - c.position for c in self.claims)


@dataclass(eq=False, slots=True)
class Claim:
    """A range that one stream receives, in order.

    end: may come nearer while it is being received. failures: tries without progress in a row, by source.
    slow: sources whose stream was left because it was too slow, as often as it was.
    source, node: the node of the fleet that gives it, and its name; else it is asked of the profile's sources.
    """

    job: Job
    start: int
    end: int
    position: int
    since_s: float
    failures: dict[str, int] = field(default_factory=dict)
    slow: list[str] = field(default_factory=list)
    source: Source | None = None
    node: str = ""

    @property
    def seconds_left(self) -> float:
        """How long it will take at the rate so far; 0 while that is not known."""
        elapsed_s = monotonic_s() - self.since_s
        if elapsed_s < _KNOWN_S:
            return 0.0
        return (self.end - self.position) * elapsed_s / max(1, self.position - self.start)


@dataclass(frozen=True, slots=True)
class Chosen:
    """A range of a job to receive next. source, node: as in Claim."""

    job: Job
    start: int
    end: int
    source: Source | None
    node: str = ""


class Chooser(Protocol):
    """Says what is received next where nodes of a fleet share the work. Called with the pool's lock held."""

    def pick(self, jobs: Sequence[Job]) -> Chosen | None:
        """Return a range that is free in one of these jobs; None where there is nothing to do now."""
        ...

    def began(self, claim: Claim) -> None:
        """Take in that a stream receives a range."""
        ...


Left = Literal["more", "whole", "spoiled", "broken"]
"""What a stream leaves behind: others or other ranges; a file to prove; one that nobody works on now, because what was
on the disk is wrong, or because it failed."""


class Pool:
    """The work of one fetch, handed out to streams. For any thread."""

    def __init__(
        self, jobs: Sequence[Job], streams: int, stop: threading.Event, chooser: Chooser | None = None
    ) -> None:
        """Take the jobs. chooser: says what is received next; None = the files one after the other."""
        self._changed = threading.Condition()
        self._chooser = chooser
        self._waiting = sorted(jobs, key=lambda job: (-job.action.file.size_bytes, job.action.file.path))
        self._unsettled = len(jobs)
        self._open: list[Job] = []
        self._held: list[tuple[float, Job]] = []
        self._streams = streams
        self._stop = stop
        self._moved_bytes = 0

    @property
    def settled(self) -> bool:
        """Whether every job is done or failed."""
        return self._unsettled == 0

    @property
    def moved_bytes(self) -> int:
        """Bytes received so far."""
        return self._moved_bytes

    def wake(self) -> None:
        """Let waiting streams look again: there may be something to choose."""
        with self._changed:
            self._changed.notify_all()

    def let_work(self, streams: int) -> None:
        """Give work to so many streams from now on; one beyond them ends what it has and then waits."""
        with self._changed:
            if streams != self._streams:
                self._streams = streams
                self._changed.notify_all()

    def take(self, number: int = 0) -> Job | Claim | None:
        """Return a job to open or a range to receive; None when there is nothing more for this stream, ever.

        Waits while the others' work may still become this stream's, and while a stream of this number is one too many.
        """
        with self._changed:
            while not self._stop.is_set() and self._unsettled:
                if number < self._streams and (work := self._next()):
                    return work
                self._changed.wait(_LOOK_AGAIN_S)
        return None

    def opened(self, job: Job, partial: Partial, missing: Ranges) -> None:
        """Let streams receive what is missing of a job."""
        with self._changed:
            job.partial, job.state = partial, "open"
            job.free = list(missing)
            self._open.append(job)
            self._changed.notify_all()

    def hold(self, job: Job, for_s: float) -> None:
        """Let nobody open a job for a while, because another process has it."""
        with self._changed:
            self._held.append((monotonic_s() + for_s, job))

    def reopen(self, job: Job, start: int, end: int) -> None:
        """Let streams receive a range of a job once more."""
        with self._changed:
            job.free = sorted([*job.free, (start, end)])
            self._changed.notify_all()

    def again(self, job: Job) -> None:
        """Let streams receive a job from the start."""
        with self._changed:
            job.free = [(0, job.action.file.size_bytes)]
            job.used = set()
            job.spoiled = None
            self._changed.notify_all()

    def advance(self, claim: Claim, size_bytes: int) -> None:
        """Note that a claim's next bytes are written."""
        with self._changed:
            claim.position += size_bytes
            self._moved_bytes += size_bytes

    def leave(self, claim: Claim) -> Left:
        """Give a claim back: received to its end, or given up because its job failed or kboot was told to stop."""
        with self._changed:
            job = claim.job
            job.claims.remove(claim)
            if claim.position < claim.end and not job.is_lost:
                job.free = sorted([*job.free, (claim.position, claim.end)])
            self._changed.notify_all()
            if job.claims:
                return "more"
            if job.error is not None:
                return "broken"
            if job.spoiled is not None:
                return "spoiled"
            return "more" if job.free else "whole"

    def fail(self, job: Job, error: KbootError) -> None:
        """Let a job fail; streams that still receive it stop at the next buffer. The first error stays."""
        with self._changed:
            job.free = []
            job.error = job.error or error

    def fail_idle(self, job: Job, error: KbootError) -> bool:
        """Let a job fail; return whether nobody receives it, so that it is for the caller to settle."""
        with self._changed:
            job.free = []
            job.error = job.error or error
            return job.state == "open" and not job.claims

    def spoil(self, job: Job, error: VerificationFailed) -> None:
        """Let everybody leave a job, because what is on the disk is not what was written."""
        with self._changed:
            job.free = []
            job.spoiled = job.spoiled or error

    def settle(self, job: Job, state: State) -> None:
        """Note that nothing more will be done for a job."""
        with self._changed:
            job.state = state
            job.seconds = monotonic_s() - job.started_s if job.started_s else 0.0
            if job in self._open:
                self._open.remove(job)
            self._unsettled -= 1
            self._changed.notify_all()

    def _next(self) -> Job | Claim | None:
        if self._chooser is not None:
            return self._next_chosen(self._chooser)
        if free := max((job for job in self._open if job.free), key=lambda job: job.left_bytes, default=None):
            return self._claim(free)
        if job := self._to_open():
            return job
        self._cut()
        cut = next((job for job in self._open if job.free), None)
        return self._claim(cut) if cut else None

    def _to_open(self) -> Job | None:
        if self._waiting:
            job = self._waiting.pop(0)
            job.started_s, job.started_unix_s = monotonic_s(), run_unix_s()
            return job
        if held := next((pair for pair in self._held if pair[0] <= monotonic_s()), None):
            self._held.remove(held)
            return held[1]
        return None

    def _next_chosen(self, chooser: Chooser) -> Job | Claim | None:
        """Open files first, so that it is known what is missing of each; then let the chooser decide."""
        if len(self._open) < _MOST_OPEN and (job := self._to_open()):
            return job
        chosen = chooser.pick(self._open)
        if chosen is None:
            return None
        job = chosen.job
        left = subtract(tuple(job.free), chosen.start, chosen.end)
        job.free = list(left)
        claim = Claim(job, chosen.start, chosen.end, chosen.start, monotonic_s())
        claim.source, claim.node = chosen.source, chosen.node
        claim.failures = job.failures.setdefault(chosen.end, {})
        job.claims.append(claim)
        chooser.began(claim)
        return claim

    def _claim(self, job: Job) -> Claim:
        start, end = job.free.pop(0)
        if job.cut and end - start > (piece := self._piece(job)):
            job.free.insert(0, (start + piece, end))
            end = start + piece
        claim = Claim(job, start, end, start, monotonic_s())
        job.claims.append(claim)
        return claim

    def _cut(self) -> None:
        """Take the far part of the claim that would take longest away from it, if that is worth it."""
        claims = [
            claim
            for job in self._open
            if job.cuttable and not job.is_lost
            for claim in job.claims
            if claim.end - claim.position >= 2 * MIN_PIECE_BYTES
        ]
        longest = max(claims, key=lambda claim: claim.seconds_left, default=None)
        if longest is None or longest.seconds_left < _WORTH_S:
            return
        # The piece in hand stays the nearest one: the hash follows from the front.
        half = (longest.end - longest.position) // 2
        keep = longest.position + min(self._piece(longest.job), half)
        longest.job.cut = True
        longest.job.free.insert(0, (keep, longest.end))
        longest.job.free.sort()
        longest.end = keep

    def _piece(self, job: Job) -> int:
        """Return how much one stream takes at once of a file that several receive; less towards the end."""
        return max(MIN_PIECE_BYTES, min(MAX_PIECE_BYTES, job.left_bytes // (2 * self._streams)))


def jobs_of(actions: Sequence[FetchFile], part_path: Callable[[str], Path]) -> tuple[Job, ...]:
    """Return one job per content, in the order of the actions. part_path: of a blob's id."""
    by_blob: dict[str, list[FetchFile]] = {}
    for action in actions:
        by_blob.setdefault(action.file.blob_id, []).append(action)
    return tuple(Job(tuple(same), part_path(blob_id)) for blob_id, same in by_blob.items())
