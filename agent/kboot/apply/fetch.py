"""How do the files of a commit get onto this disk, proven, at the rate that network, disk and cores give?"""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from kboot.apply.fetch_desk import Desk
from kboot.apply.fetch_pace import Cpus, Growth, Speeds
from kboot.apply.fetch_shared import Shared
from kboot.apply.fetch_stream import Stream
from kboot.apply.fetch_transport import Transport, transfer_path
from kboot.apply.fetch_work import MIN_PIECE_BYTES, Job, Pool, jobs_of
from kboot.apply.pace import Throttle
from kboot.checkpoint import Listing
from kboot.errors import ActionFailed, DoesNotFit, KbootError
from kboot.events import Emit, FileDone, FileTrouble, Notice
from kboot.host import files
from kboot.host.blocks import BlockFile
from kboot.host.clock import machine_cpus, machine_idle_s, monotonic_s, process_cpu_s, run_unix_s
from kboot.plan.types import FetchFile, describe
from kboot.profile.types import FetchAsk
from kboot.quantities import show_bytes
from kboot.report.types import Outcome, OutcomeStatus
from kboot.sources.types import Source
from kboot.store.store import Store

if TYPE_CHECKING:
    from kboot.apply.exchange import Exchange

_MAX_STREAMS = 32
_MANY_CPUS = 32
_FIRST_STREAMS = 8  # what it takes to see past the limit of a single connection
_STREAMS_A_CPU = 2  # one CPU takes in 0.6 to 0.85 GB/s, a connection of a CDN gives 0.6; more only take turns
_RESERVE_FROM_BYTES = 1 << 20
_LOOK_S = 0.2
_CHECKPOINT_BYTES = 256 << 20
_CHECKPOINT_S = 5.0


def fetch_files(
    actions: Sequence[FetchFile],
    listing: Listing,
    sources: Sequence[Source],
    store: Store,
    ask: FetchAsk,
    emit: Emit,
    stop: threading.Event,
    cpus: int,
    exchange: Exchange | None = None,
) -> tuple[Outcome, ...]:
    """Receive, hash and write every file in one pass; return one outcome per action, in their order.

    A file gets its final name when its bytes are proven and durable. A file that fails does not stop the others; what
    arrived of it stays for the next run. When `stop` is set, what has arrived is made durable and the rest fails with
    code "interrupted". cpus: how many this process may use. exchange: with the other nodes of a fleet; ended here.
    """
    jobs = jobs_of(actions, lambda blob_id: store.part_path(listing.repo, blob_id))
    try:
        _reserve(jobs, in_place=ask.transport == "http")
        store.remember(listing)  # before the first byte: a node whose origin is gone goes on with what other nodes have
    except KbootError as exc:
        for job in jobs:
            job.state, job.error = "failed", exc
        return _outcomes(actions, jobs)
    streams = count_streams(ask, sum(job.action.file.size_bytes for job in jobs), len(jobs), cpus)
    growth = Growth(*streams, cpus, machine_cpus())
    _Fetch(jobs, listing, sources, store, ask, emit, stop, growth, exchange).run()
    return _outcomes(actions, jobs)


def count_streams(ask: FetchAsk, size_bytes: int, files_count: int, cpus: int) -> tuple[int, int]:
    """Return how many connections to open at first, and at most.

    Enough to pass the limit of a single connection (a CDN's is about 5 Gbit/s) on a fast line, no more at first than
    the CPUs can serve, and never more than there are files or pieces of files. As many as the profile asks for, where
    it does.
    """
    pieces = max(1, files_count, size_bytes // MIN_PIECE_BYTES)
    first = ask.streams or max(min(_FIRST_STREAMS, _STREAMS_A_CPU * cpus), min(_MAX_STREAMS, cpus))
    most = ask.streams or (_MAX_STREAMS if cpus < _MANY_CPUS else 2 * _MAX_STREAMS)
    return min(first, pieces), min(most, pieces)


class _Fetch:
    """One run. Streams receive and prove; the calling thread makes durable and gives final names."""

    def __init__(
        self,
        jobs: Sequence[Job],
        listing: Listing,
        sources: Sequence[Source],
        store: Store,
        ask: FetchAsk,
        emit: Emit,
        stop: threading.Event,
        growth: Growth,
        exchange: Exchange | None,
    ) -> None:
        self._jobs = jobs
        self._listing = listing
        self._sources = sources
        self._store = store
        self._emit = emit
        self._stop = stop
        self._ended = threading.Event()  # told to stop, or a stream met a bug
        self._bugs: list[BaseException] = []
        self._proven: queue.SimpleQueue[Job] = queue.SimpleQueue()
        self._growth = growth
        self._exchange = exchange
        self._pool = Pool(jobs, growth.streams, self._ended, exchange)
        self._desk = Desk(sources, ask.attempts, emit, self._ended)
        stall_s, ended = ask.stall_timeout_s, self._ended
        other = None if ask.transport == "http" else Transport(ask.transport, listing, stall_s, emit, ended)
        if other is not None and exchange is not None:
            other = None
            emit(Notice("transport.changed", f"nodes of a fleet share pieces: they come by http, not {ask.transport}"))
        self._new_stream = partial(
            Stream,
            listing=listing,
            pool=self._pool,
            desk=self._desk,
            throttle=Throttle(ask.max_rate_mib_s << 20, self._ended),
            emit=emit,
            stop=self._ended,
            transport=other,
            shared=Shared(listing, store, emit, self._ended),
            speeds=Speeds(),
            hand_over=self._proven.put,
            exchange=exchange,
        )
        self._threads: list[threading.Thread] = []
        self._checkpointed_s: dict[Job, float] = {}

    def run(self) -> None:
        """Fetch until every job is settled or kboot is told to stop."""
        try:
            if self._exchange is not None:
                pool, desk = self._pool, self._desk
                self._exchange.follow(pool.wake, desk.paused, desk.pause, lambda: pool.moved_bytes)
            while not self._pool.settled and not self._stop.is_set() and not self._bugs:
                self._grow()
                self._keep(_LOOK_S)
                self._fail_orphans()
        finally:
            self._end()
        if self._bugs:
            raise self._bugs[0]

    def _grow(self) -> None:
        """Let as many streams work as pay, and start those that are new."""
        streams = self._growth.look(monotonic_s(), self._pool.moved_bytes, Cpus(process_cpu_s(), machine_idle_s()))
        self._pool.let_work(streams)
        while len(self._threads) < streams:
            stream, number = self._new_stream(), len(self._threads)
            thread = threading.Thread(target=self._stream, args=(stream, number), name="fetch", daemon=True)
            self._threads.append(thread)
            thread.start()

    def _stream(self, stream: Stream, number: int) -> None:
        try:
            stream.run(number)
        except BaseException as exc:  # noqa: BLE001 - raised again by the calling thread
            self._bugs.append(exc)

    def _keep(self, timeout_s: float) -> None:
        """Give the next proven file its name; while there is none, make durable what is only in memory."""
        try:
            self._admit(self._proven.get(timeout=timeout_s))
        except queue.Empty:
            now = monotonic_s()
            for job in self._jobs:
                if job.state == "open" and job.partial is not None and self._is_due(job, job.partial.unsynced_bytes):
                    self._checkpointed_s[job] = now
                    self._checkpoint(job)

    def _fail_orphans(self) -> None:
        """Let files fail that the origin refuses and no other node will bring."""
        for job, error in self._exchange.orphans() if self._exchange is not None else ():
            if self._pool.fail_idle(job, error):
                if job.partial is not None:
                    job.partial.close()
                self._emit(FileTrouble("fetch", job.action.file.path, error.code, error.message, final=True))
                self._pool.settle(job, "failed")

    def _is_due(self, job: Job, unsynced_bytes: int) -> bool:
        since_s = monotonic_s() - self._checkpointed_s.setdefault(job, job.started_s)
        return unsynced_bytes >= _CHECKPOINT_BYTES or (unsynced_bytes > 0 and since_s >= _CHECKPOINT_S)

    def _checkpoint(self, job: Job) -> None:
        # A failure is told by the partial itself to whoever writes to it next.
        with suppress(KbootError):
            if job.partial is not None:
                job.partial.checkpoint()

    def _admit(self, job: Job) -> None:
        partial = job.partial
        assert partial is not None, "a proven job is open"
        try:
            partial.sync()
            for action in job.actions:
                self._store.admit(self._listing, action.file, job.part_path, job.source, partial.prefixes)
            partial.forget()
        except KbootError as exc:
            job.error = exc
            partial.close()
            for action in job.actions:
                self._emit(FileTrouble("fetch", action.file.path, exc.code, exc.message, final=True))
            self._pool.settle(job, "failed")
            return
        self._pool.settle(job, "done")
        if self._exchange is not None:
            self._exchange.proven(job)
        for action in job.actions:
            size, seconds = action.file.size_bytes, job.seconds
            self._emit(FileDone("fetch", action.file.path, size, seconds, job.source, job.reused_bytes))

    def _end(self) -> None:
        """Let every stream end, finish what is proven, and leave the rest durable for the next run."""
        unfinished = not self._pool.settled
        self._ended.set()
        for source in self._sources:
            if unfinished:
                source.interrupt()
        if self._exchange is not None:
            self._exchange.end()
        for thread in self._threads:
            thread.join()
        for source in self._sources:
            source.close()
        while not self._proven.empty():
            self._admit(self._proven.get())
        for job in self._jobs:
            if job.state in ("waiting", "open"):
                if job.partial is not None:
                    job.partial.close()
                else:
                    _give_back(job.part_path)
                job.error = job.error or _interrupted(job)
                self._pool.settle(job, "interrupted")


def _interrupted(job: Job) -> KbootError:
    here = job.partial.written_bytes if job.partial is not None else 0
    return ActionFailed(
        "interrupted",
        f"{job.action.file.path}: stopped with {here:,} of {job.action.file.size_bytes:,} bytes here",
        hint="run it again: it goes on from there",
    )


def _reserve(jobs: Sequence[Job], in_place: bool) -> None:
    """Take the disk blocks of every file before the first byte, so that a full disk is known at once.

    Of files in memory each stream takes them itself: one thread makes pages for 3.5 GB a second.

    in_place: files grow where they are reserved; hf_transfer makes its own, for which the room is only compared.

    Raises:
        DoesNotFit: there is no room for all; what was taken for this run is given back.
    """
    large = [job for job in jobs if job.action.file.size_bytes >= _RESERVE_FROM_BYTES]
    for folder in {job.part_path.parent for job in jobs}:
        files.make_dirs(folder)
    for job in large:
        with _alone(job.part_path) as blocks:
            if blocks is not None:
                files.remove(transfer_path(job.part_path))  # of a run that was killed
    try:
        _check_room(large)
        for job in large if in_place else ():
            with _alone(job.part_path) as blocks:
                if blocks is not None and not blocks.is_in_memory:
                    blocks.reserve(job.action.file.size_bytes)
    except KbootError:
        for job in large:
            _give_back(job.part_path)
        raise


def _check_room(jobs: Sequence[Job]) -> None:
    """Compare before taking: a reservation that fails half way has filled the disk for everybody meanwhile."""
    wanted_bytes, free_bytes = 0, None
    for job in jobs:
        with BlockFile(job.part_path) as blocks:
            wanted_bytes += max(0, job.action.file.size_bytes - blocks.taken_bytes)
            free_bytes = blocks.free_bytes
    if free_bytes is not None and wanted_bytes > free_bytes:
        folder = jobs[0].part_path.parent
        raise DoesNotFit(
            "disk-too-small",
            f"the files need {show_bytes(wanted_bytes)} more, the file system has {show_bytes(free_bytes)} free",
            where=(str(folder),),
            hint=f"free space (`df -h {folder}`), or put the state directory on a larger disk",
        )


@contextmanager
def _alone(part: Path) -> Iterator[BlockFile | None]:
    """Open a part for a moment; None where another process has it, or just gave it its final name."""
    with BlockFile(part) as blocks:
        yield blocks if blocks.try_lock() and blocks.is_named else None


def _give_back(part: Path) -> None:
    """Give back what was reserved beyond the bytes that are here."""
    with _alone(part) as blocks:
        if blocks is None:
            return
        if blocks.size_bytes:
            blocks.truncate(blocks.size_bytes)
        else:
            files.remove(part)


def _outcomes(actions: Sequence[FetchFile], jobs: Sequence[Job]) -> tuple[Outcome, ...]:
    job_of = {job.action.file.blob_id: job for job in jobs}
    return tuple(_outcome(action, job_of[action.file.blob_id]) for action in actions)


def _outcome(action: FetchFile, job: Job) -> Outcome:
    status: OutcomeStatus = "done" if job.state == "done" else "unchanged" if job.state == "here" else "failed"
    return Outcome(
        phase="fetch",
        title=describe(action),
        reason=action.reason,
        status=status,
        start_unix_s=job.started_unix_s or run_unix_s(),
        seconds=job.seconds,
        size_bytes=action.file.size_bytes if job.state == "done" else 0,
        source=job.source,
        after="another process of this node fetched and proved it" if job.state == "here" else "",
        error=job.error,
    )
