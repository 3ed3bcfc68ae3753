"""What if another process of this node is fetching the same file? Wait while it gets on, and take what it proved."""

from __future__ import annotations

import threading
from dataclasses import dataclass

from kboot.apply.fetch_work import Job
from kboot.checkpoint import Listing
from kboot.errors import VerificationFailed
from kboot.events import Emit, FileProgress, Notice
from kboot.host import files
from kboot.host.clock import monotonic_s
from kboot.pieces import runs_of
from kboot.sources.patience import LIMITED_S
from kboot.store.hashing import hash_file
from kboot.store.journal import journal_path
from kboot.store.part_trust import PartialInUse, have_bytes
from kboot.store.partial import Partial
from kboot.store.store import Store
from kboot.store.verifier import Prefixes

SILENT_S = LIMITED_S + 60.0
"""An owner without any sign of life for so long is not waited for; it may itself be waiting for a source till then."""
LOOK_S = 1.0
_RECORDING_S = 2.0
_RECORDING_LOOK_S = 0.05


@dataclass(slots=True)
class Owner:
    """What was last seen of a file's owner. since_s: when it last changed."""

    sign: object
    since_s: float

    def gets_on(self, sign: object, now_s: float) -> bool:
        """Take in what is seen now; return whether it is worth waiting on."""
        if sign != self.sign:
            self.sign, self.since_s = sign, now_s
        return now_s - self.since_s < SILENT_S


class Shared:
    """The files of one fetch as other processes may have them. For any thread; each job by one thread at a time."""

    def __init__(self, listing: Listing, store: Store, emit: Emit, stop: threading.Event) -> None:
        self._listing = listing
        self._store = store
        self._emit = emit
        self._stop = stop
        self._owners: dict[Job, Owner] = {}
        self._told: dict[str, Job] = {}

    def is_here(self, job: Job) -> bool:
        """Return whether the file is proven under its final name by now."""
        return self._store.look(self._listing.repo, job.action.file).state == "verified"

    def becomes_here(self, job: Job) -> bool:
        """Return the same for a file whose part is ours; one that has its name, but no proof yet, is proven now.

        Raises:
            KbootError: the disk or the ledger cannot be used.
        """
        file, listing, store = job.action.file, self._listing, self._store
        until_s = monotonic_s() + _RECORDING_S
        while (state := store.look(listing.repo, file).state) == "present":
            # Its owner gives it its name first and writes it down right after.
            if monotonic_s() >= until_s or self._stop.wait(_RECORDING_LOOK_S):
                return self._prove(job)
        return state == "verified"

    def _prove(self, job: Job) -> bool:
        file, listing, store = job.action.file, self._listing, self._store
        blob = store.blob_path(listing.repo, file.blob_id)
        try:
            store.record_hashed(listing, file, hash_file(blob, file, on_bytes=lambda _: self._goes_on()))
        except VerificationFailed:
            return False
        return True

    def known(self, job: Job) -> Prefixes:
        """Return what is known of the content's beginnings, from when it was proven on this node before."""
        return self._store.ledger.prefixes(job.action.file.blob_id)

    def build_on_copy(self, job: Job, partial: Partial) -> None:
        """Put what a damaged copy of the file has into a partial that has nothing; the copy stays as it is.

        Raises:
            KbootError: the disk refuses.
        """
        if partial.written_bytes or self._store.look(self._listing.repo, job.action.file).state != "damaged":
            return
        blob = self._store.blob_path(self._listing.repo, job.action.file.blob_id)
        partial.build_on(blob, self._goes_on)

    def build_on_share(self, job: Job, partial: Partial) -> bool:
        """Put what is here of the file in part into a partial that has nothing; return whether there was something.

        Its own hash proves it then, with the rest of the file.

        Raises:
            KbootError: the disk refuses.
        """
        repo, file = self._listing.repo, job.action.file
        record = None if partial.written_bytes else self._store.shares.record(repo, file)
        if record is None:
            return False
        ranges = runs_of(record.pieces, file.size_bytes)
        return partial.build_on(self._store.shares.data_path(repo, file.blob_id), self._goes_on, ranges) > 0

    def _goes_on(self) -> bool:
        return not self._stop.is_set()

    def may_wait(self, job: Job, in_use: PartialInUse) -> bool:
        """Return whether the file's owner gets on; who it is, is told once, and how far it is with the file."""
        file, part, now_s = job.action.file, job.part_path, monotonic_s()
        sign = (_sign(job), have := have_bytes(part, file))
        owner = self._owners.get(job)
        if owner is None:
            owner = self._owners[job] = Owner(sign, now_s)
            if self._told.setdefault(in_use.owner, job) is job:
                who = f"{in_use.owner} fetches {self._listing.repo}, too"
                self._emit(
                    Notice("fetch.waiting", f"{who}: files that it has begun are waited for, the rest is shared")
                )
        if have:
            self._emit(FileProgress("fetch", file.path, have, file.size_bytes))
        return owner.gets_on(sign, now_s)


def _sign(job: Job) -> tuple[files.Identity | None, ...]:
    found: list[files.Identity | None] = []
    for path in (job.part_path, journal_path(job.part_path)):
        try:
            found.append(files.identity(path))
        except OSError:
            found.append(None)
    return tuple(found)
