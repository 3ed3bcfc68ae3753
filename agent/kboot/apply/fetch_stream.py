"""How does one stream receive, hash and write in one pass?"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kboot.apply.fetch_desk import Desk, wrong_twice
from kboot.apply.fetch_pace import Crawl, Speeds, Watch, buffer_bytes
from kboot.apply.fetch_shared import LOOK_S, SILENT_S, Shared
from kboot.apply.fetch_transport import Transport
from kboot.apply.fetch_work import Claim, Job, Pool
from kboot.apply.pace import Throttle
from kboot.checkpoint import Listing
from kboot.errors import KbootError, SourceError, VerificationFailed
from kboot.events import Emit, FileDone, FileProgress, FileTrouble, Notice
from kboot.host.clock import monotonic_s
from kboot.host.pagecache import new_buffer
from kboot.quantities import show_bytes
from kboot.sources.framing import end_of_request
from kboot.sources.types import Source
from kboot.store.part_trust import PartialInUse
from kboot.store.partial import Partial
from kboot.store.verifier import WrongRange

if TYPE_CHECKING:
    from kboot.apply.exchange import Exchange

_PROGRESS_S = 0.25
_WORTH_BYTES = 8 << 20  # a try that brought less than this, and not the end either, counts as failed
_SHORTEST_BYTES = 64 << 10  # an answer that ends properly, but after less than this, is trouble
_MOVES = 3  # a range that is slow on so many connections is slow everywhere


@dataclass(slots=True, eq=False)
class Stream:
    """One connection's worth of work: takes from the pool until there is nothing left.

    stop: told to stop, or another stream met a bug. transport: asked first for a file. shared: what other processes
    have. speeds: of all streams of the fetch. hand_over: takes a job whose bytes are proven and written, not yet
    durable. exchange: with the other nodes of a fleet.
    """

    listing: Listing
    pool: Pool
    desk: Desk
    throttle: Throttle
    emit: Emit
    stop: threading.Event
    transport: Transport | None
    shared: Shared
    speeds: Speeds
    hand_over: Callable[[Job], None]
    exchange: Exchange | None
    _peer_speeds: Speeds = field(default_factory=Speeds)
    _buffer: memoryview = field(default_factory=lambda: memoryview(b""))

    def run(self, number: int) -> None:
        """Work until the pool has nothing more. number: of this stream, from 0; the last ones rest when few will do."""
        while (work := self.pool.take(number)) is not None:
            if not self._buffer:
                self._buffer = new_buffer(buffer_bytes(number))
            if isinstance(work, Job):
                self._open(work)
            else:
                self._receive(work)

    def _open(self, job: Job) -> None:
        """Look at what an earlier run, another transport or another process made of a file."""
        try:
            brought_by = "" if self.shared.is_here(job) else self._brought_by(job)
            known = self.shared.known(job)
            partial = Partial(job.part_path, job.action.file, known)
            try:
                if self.shared.becomes_here(job):
                    partial.discard()
                    self._take_over(job)
                    return
                if known.digests:
                    self.shared.build_on_copy(job, partial)
                in_part = self.shared.build_on_share(job, partial)
                partial.reserve()
            except KbootError:
                partial.close()
                raise
        except PartialInUse as exc:
            self._wait_for_owner(job, exc)
            return
        except KbootError as exc:
            self.pool.fail(job, exc)
            self._give_up(job)
            return
        if why := partial.found.discarded:
            text = f"what was here of {job.action.file.path} is not used: {why}"
            self.emit(Notice("partial.discarded", text))
        if brought_by:
            job.used.add(brought_by)
        else:
            job.reused_bytes = partial.found.reused_bytes
        missing = partial.missing()
        if self.exchange is not None:
            self.exchange.opened(job, missing, trusted=not known.digests and not in_part)
        self.pool.opened(job, partial, missing)
        if not missing:
            self._prove(job, partial)

    def _take_over(self, job: Job) -> None:
        """Count a file that another process proved."""
        job.source = "this disk"
        self.pool.settle(job, "here")
        if self.exchange is not None:
            self.exchange.proven(job)
        for action in job.actions:
            size = action.file.size_bytes
            self.emit(FileDone("fetch", action.file.path, size, job.seconds, job.source, size))

    def _wait_for_owner(self, job: Job, in_use: PartialInUse) -> None:
        if self.shared.may_wait(job, in_use):
            self.pool.hold(job, LOOK_S)
            return
        in_use.message += f", and nothing came of it for {SILENT_S:.0f} s"
        self.pool.fail(job, in_use)
        self._give_up(job)

    def _brought_by(self, job: Job) -> str:
        """Let another transport bring the file, if there is one; return the source's name, or nothing."""
        if self.transport is None:
            return ""
        try:
            source = self.desk.pick(job)
        except SourceError:
            return ""  # what is here already may be the whole file
        return source.name if self.transport.bring(source, job.action.file, job.part_path) else ""

    def _receive(self, claim: Claim) -> None:
        """Receive a range from whoever gives it, then see whether the file is whole."""
        job = claim.job
        partial = job.partial
        assert partial is not None, "ranges are handed out of open jobs only"
        try:
            while claim.position < claim.end and not job.is_lost and not self.stop.is_set():
                if not self._try(claim, partial):
                    break
        except VerificationFailed as exc:
            self.pool.spoil(job, exc)
        except KbootError as exc:
            self.pool.fail(job, exc)
        if self.exchange is not None:
            self.exchange.ended(claim)
        match self.pool.leave(claim):
            case "whole":
                self._prove(job, partial)
            case "spoiled":
                assert job.spoiled is not None, "a job is spoiled for a reason"
                self._judge(job, partial, job.spoiled)
            case "broken":
                self._give_up(job)
            case "more":
                pass

    def _try(self, claim: Claim, partial: Partial) -> bool:
        """Ask one source once and take in what comes; return whether this stream may go on with the range."""
        exchange = self.exchange
        if exchange is not None and claim.source is not None:
            self._try_node(exchange, claim.source, claim, partial)
            return False
        try:
            source = self.desk.pick(claim.job, claim.slow)
        except SourceError as exc:
            if exchange is None:
                raise
            exchange.refused(claim.job, exc)
            return False
        before = claim.position
        try:
            if self.desk.wait(source):
                self._pour(source, claim, partial)
        except _TooSlow:
            claim.slow.append(source.name)
            path, left = claim.job.action.file.path, claim.end - claim.position
            text = f"{source.name} is far slower here than on other connections: {show_bytes(left)} go to another one"
            self.emit(FileTrouble("fetch", path, "stream-slow", text, final=False))
        except SourceError as exc:
            if not self.stop.is_set():
                self.desk.trouble(claim, source, exc, claim.position - before >= _WORTH_BYTES)
        return exchange is None or claim.position == claim.end  # meanwhile another node may have it

    def _try_node(self, exchange: Exchange, node: Source, claim: Claim, partial: Partial) -> None:
        """Ask a node of the fleet once; what it does not give is chosen anew, of whomever."""
        try:
            self._pour(node, claim, partial)
        except _TooSlow:
            exchange.too_slow(claim)
        except SourceError as exc:
            if not self.stop.is_set():
                exchange.failed(claim, exc)
                path = claim.job.action.file.path
                self.emit(FileTrouble("fetch", path, exc.code, f"{exc.message} ({node.name})", final=False))

    def _pour(self, source: Source, claim: Claim, partial: Partial) -> None:
        job, buffer = claim.job, self._buffer
        file, listing = job.action.file, self.listing
        end = end_of_request(claim.position, claim.end, file.size_bytes)
        with source.open(listing.repo, listing.commit, file, claim.position, end) as body:
            skip = claim.position - body.start
            if skip:
                job.cuttable = False  # it does not know ranges: every piece would cost the whole file
            while skip and not self.stop.is_set():
                skip -= _some(body.readinto(buffer[: min(skip, len(buffer))]), claim)
            speeds = self.speeds if claim.source is None else self._peer_speeds
            began, watch, crawl = claim.position, Watch(speeds, monotonic_s()), Crawl()
            # Where the end came nearer, the rest of the body belongs to another stream and is left.
            while (wanted := min(len(buffer), claim.end - claim.position)) > 0:
                if job.is_lost or self.stop.is_set():
                    return
                asked_s = monotonic_s()
                n = body.readinto(buffer[:wanted])
                took_s = monotonic_s() - asked_s
                if n == 0 and claim.position - began >= _SHORTEST_BYTES:
                    return  # a server may answer with less than the range: the next try asks for the rest
                _some(n, claim)
                job.used.add(source.name)
                if claim.start in job.mended:
                    job.mended[claim.start] = source.name
                self._compare(claim, partial, buffer[:n])
                try:
                    partial.write(buffer, n, claim.position)
                except WrongRange as exc:
                    self._mend(job, partial, exc)
                self.pool.advance(claim, n)
                self._tell(job, partial)
                self.throttle.pass_by(n)
                if claim.node and crawl.is_on(n, took_s) and claim.position < claim.end:
                    raise SourceError("peer-crawls", f"{source.name} gave less than 64 KiB/s", retry=True)
                if watch.too_slow(n, monotonic_s()) and _is_worth_moving(claim):
                    raise _TooSlow

    def _compare(self, claim: Claim, partial: Partial, data: memoryview) -> None:
        """Where a node may have given wrong bytes: see whether these are others."""
        exchange = self.exchange
        if exchange is not None and exchange.is_compared(claim):
            at = partial.differs(data, claim.position)
            if at is not None:
                exchange.differs(claim.job, at)

    def _tell(self, job: Job, partial: Partial) -> None:
        now = monotonic_s()
        if now >= job.next_progress_s:
            job.next_progress_s = now + _PROGRESS_S
            file = job.action.file
            self.emit(FileProgress("fetch", file.path, partial.written_bytes, file.size_bytes))

    def _prove(self, job: Job, partial: Partial) -> None:
        """Give the verdict on a file whose bytes are all here."""
        try:
            partial.prove(self._buffer)
        except WrongRange as exc:
            self._mend(job, partial, exc)
        except VerificationFailed as exc:
            self._judge(job, partial, exc)
        except KbootError as exc:
            self.pool.fail(job, exc)
            self._give_up(job)
        else:
            job.source = ", ".join(sorted(job.used)) or "this disk"
            job.state = "proven"
            self.hand_over(job)
            self._settled(job)

    def _mend(self, job: Job, partial: Partial, wrong: WrongRange) -> None:
        """Let a wrong range of a file be fetched again; the rest of it stays."""
        path = job.action.file.path
        if again_from := job.mended.get(wrong.start):
            self.desk.wrong_bytes(job, again_from)
        elif partial.found.reused_bytes:  # it may have been here
            job.reused_bytes = max(0, job.reused_bytes - (wrong.end - wrong.start))
        elif len(job.used) == 1:
            self.desk.wrong_bytes(job, *job.used)
        if self.exchange is not None:
            self.exchange.thrown_away(job, wrong.start, wrong.end)
        job.mended[wrong.start] = ""
        text = f"{wrong.message}; they are fetched again"
        self.emit(FileTrouble("fetch", path, wrong.code, text, final=False))
        self.pool.reopen(job, wrong.start, wrong.end)

    def _judge(self, job: Job, partial: Partial, error: VerificationFailed) -> None:
        """Find who is to blame for wrong bytes: what was on the disk, one source, a node, or nobody knows which."""
        if self.exchange is not None and self._is_doubted(self.exchange, job, partial, error):
            return
        reused = partial.found.reused_bytes > 0
        job.source = ", ".join(sorted(job.used)) or "this disk"
        job.rounds += 0 if reused else 1
        if len(job.used) == 1 and not reused:
            self.desk.wrong_bytes(job, *job.used)
        if self.exchange is not None:
            self.exchange.thrown_away(job, 0, job.action.file.size_bytes)
        try:
            partial.restart()
        except KbootError as exc:
            self.pool.fail(job, exc)
        if job.rounds >= self.desk.rounds:
            self.pool.fail(job, wrong_twice(job, error))
        if job.error is not None:
            self._give_up(job)
            return
        path = job.action.file.path
        text = f"{error.message} ({job.source}); fetched again"
        self.emit(FileTrouble("fetch", path, error.code, text, final=False))
        self.pool.again(job)

    def _is_doubted(self, exchange: Exchange, job: Job, partial: Partial, error: VerificationFailed) -> bool:
        """Let what nodes gave of a wrong file be received again; return whether that is to be seen first."""
        ranges = exchange.doubtful(job, partial, error)
        if ranges is None:
            return True
        if not ranges:
            return False
        text = f"{error.message} ({', '.join(sorted(job.used))}); what other nodes gave of it is fetched again"
        self.emit(FileTrouble("fetch", job.action.file.path, error.code, text, final=False))
        partial.doubt(ranges)
        job.spoiled = None
        for start, end in ranges:
            self.pool.reopen(job, start, end)
        return True

    def _settled(self, job: Job) -> None:
        """Look again at the files that waited for what was to be found out with this one."""
        for other, partial, error in self.exchange.checked(job) if self.exchange is not None else ():
            if other.state == "open":
                self._judge(other, partial, error)

    def _give_up(self, job: Job) -> None:
        error = job.error
        assert error is not None, "a job is given up for a reason"
        if job.partial is not None:
            job.partial.close()
        for action in job.actions:
            self.emit(FileTrouble("fetch", action.file.path, error.code, error.message, final=True))
        self.pool.settle(job, "failed")
        self._settled(job)


class _TooSlow(Exception):
    """Another connection, or another source, is expected to bring the rest sooner."""


def _is_worth_moving(claim: Claim) -> bool:
    return claim.end - claim.position >= _WORTH_BYTES and len(claim.slow) < _MOVES


def _some(n: int, claim: Claim) -> int:
    if n == 0:
        path = claim.job.action.file.path
        raise SourceError(
            "short-body", f"{path} ends at byte {claim.position}, wanted bytes up to {claim.end}", retry=True
        )
    return n
