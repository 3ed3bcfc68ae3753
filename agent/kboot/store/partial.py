"""How does a file grow on the disk so that no verified byte of it is lost and no other is trusted?"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from kboot.checkpoint import RemoteFile
from kboot.errors import KbootError, VerificationFailed
from kboot.host import files
from kboot.host.blocks import boot_id
from kboot.store.hashing import BUFFER_BYTES
from kboot.store.journal import Journal, Record
from kboot.store.part_trust import Found, open_alone, promise_of, trust
from kboot.store.ranges import Ranges, add, gaps, prefix, subtract, total
from kboot.store.verifier import NO_PREFIXES, Prefixes, Verifier, WrongRange

WINDOW_BYTES = 16 << 20
"""Written bytes are handed to the disk in steps of this; at most about three of them per stream are unwritten."""
_NOTE_BYTES = 4 << 20  # between two records of what the page cache has
_DOUBT_AT = 3  # a range was wrong on this disk, or as first received, and then from two sources
_CATCH_UP_BYTES = 4 << 20  # hashed from the file between two writes, while the hash is behind the stream


class Partial:
    """One file while it is being fetched.

    Streams write ranges of it at once; the hash follows the contiguous front, fed from memory where a stream is just
    there and from the page cache where it is not. Every method may be called from any thread; forget(), restart()
    and close() only when nobody writes.
    """

    def __init__(self, path: Path, file: RemoteFile, known: Prefixes = NO_PREFIXES) -> None:
        """Open the partial and judge what is there.

        known: what the content's beginnings hash to; with it, wrong bytes cost their range and not the whole file.

        Raises:
            PartialInUse: another process has it.
        """
        self.path = path
        self.file = file
        self._blocks = open_alone(path, file)
        self._boot_id = boot_id()
        self._lock = threading.Lock()  # of _written, _unsynced_bytes
        self._hash_lock = threading.Lock()  # of _verifier
        self._journal_lock = threading.Lock()  # of _journal, _closed; held while the file is made durable
        trusted, self.found = trust(path, file, self._blocks.inode, self._blocks.size_bytes, self._boot_id)
        self._journal = Journal(path, trusted.seq)
        self._written: Ranges = trusted.ranges
        self._unsynced_bytes = 0
        self._known = known
        self._verifier = Verifier(file, known)
        self._wrong: Counter[int] = Counter()  # how often the range that begins there was wrong
        self._promise = promise_of(trusted)
        self._closed = False
        self._broken: KbootError | None = None
        if not trusted.ranges and self._blocks.size_bytes:
            self.restart()

    @property
    def written_bytes(self) -> int:
        """Bytes that are here, hashed or not."""
        return total(self._written)

    @property
    def prefixes(self) -> Prefixes:
        """What the beginnings of the file hash to; of all of it once it is proven."""
        return self._verifier.prefixes

    @property
    def unsynced_bytes(self) -> int:
        """Bytes written since the last checkpoint()."""
        return self._unsynced_bytes

    def missing(self) -> Ranges:
        """Return what is still to fetch."""
        return gaps(self._written, self.file.size_bytes)

    def reserve(self) -> bool:
        """Take the disk blocks for the whole file; False where the file system cannot.

        Raises:
            DoesNotFit: there is no room.
        """
        return self._blocks.reserve(self.file.size_bytes)

    def write(self, buffer: memoryview, size_bytes: int, offset: int) -> None:
        """Write the first size_bytes of the buffer at the offset and hash what can be hashed.

        The buffer is scratch space afterwards.

        Raises:
            WrongRange: a range that is whole now is not what is known of it; it counts as missing again.
            VerificationFailed: code "partial-damaged": the disk has lost bytes of an earlier run.
        """
        self._check_sound()
        end = offset + size_bytes
        first_apart = offset > prefix(self._written) and not self._journal.begun
        if first_apart:
            self._begin_journal()
        self._blocks.write(buffer[:size_bytes], offset)
        with self._lock:
            self._written = add(self._written, offset, end)
            self._unsynced_bytes += size_bytes
        if self._hash_lock.acquire(blocking=False):
            try:
                fed = self._verifier.fed_bytes
                if offset <= fed < end:
                    self._verifier.feed(buffer[fed - offset : size_bytes])
                self._catch_up(buffer, _CATCH_UP_BYTES)
            except WrongRange as exc:
                self._miss(exc)
                raise
            finally:
                self._hash_lock.release()
        if first_apart or end // _NOTE_BYTES != offset // _NOTE_BYTES:
            self._note()
        if end // WINDOW_BYTES != offset // WINDOW_BYTES:
            self._push(end // WINDOW_BYTES)

    def checkpoint(self) -> None:
        """Make what is written so far durable and remember that; nothing when the file's life here is over."""
        with self._journal_lock:
            if self._closed:
                return
            record, unsynced = self._record()
            try:
                self._blocks.sync()
                self._journal.durable(record)
            except KbootError as exc:
                self._broken = exc  # the kernel tells of a lost write once, and a later sync would pass
                raise
            with self._lock:
                self._unsynced_bytes -= unsynced

    def prove(self, buffer: memoryview) -> None:
        """Hash what is left and give the verdict on the whole file; returns when its bytes are the listed ones.

        Raises:
            WrongRange: they are not, in a range that counts as missing again; the rest of them stays.
            VerificationFailed: they are not.
        """
        with self._hash_lock:
            try:
                self._catch_up(buffer, self.file.size_bytes)
                self._verifier.finish()
            except WrongRange as exc:
                self._miss(exc)
                raise
        self._blocks.push(0, 0)

    def build_on(self, copy: Path, go_on: Callable[[], bool], ranges: Ranges | None = None) -> int:
        """Take the bytes of a damaged copy of the file, for what is known to tell which of them are wrong.

        Returns how many; ranges that the disk cannot read stay missing. go_on: asked between two ranges. ranges: those
        that the copy has, if not all.

        Raises:
            KbootError: the disk refuses.
        """
        step, size = self._known.step_bytes, self.file.size_bytes
        for start, last in ((at, min(at + step, b)) for a, b in ranges or ((0, size),) for at in range(a, b, step)):
            if not go_on():
                break
            end = start + self._blocks.copy_from(copy, start, last - start)
            if end < last or ranges:
                self._begin_journal()
            with self._lock:
                self._written = add(self._written, start, end)
                self._unsynced_bytes += end - start
            self._push(end // WINDOW_BYTES)
        self._begin_journal()
        self.found = Found(total(self._written), "")
        return self.found.reused_bytes

    def sync(self) -> None:
        """Make every byte durable, before the file gets its final name."""
        self._check_sound()
        self._blocks.sync()

    def forget(self) -> None:
        """End the partial's life: the file has its final name now, the journal goes."""
        with self._journal_lock:
            self._closed = True
            self._blocks.close()
            self._journal.remove()

    def restart(self) -> None:
        """Throw away every byte and begin again."""
        with self._journal_lock:
            self._journal.remove()
            self._blocks.truncate(0)
            self._journal = Journal(self.path, 0)
            self._written = ()
            self._unsynced_bytes = 0
            self._verifier = Verifier(self.file, self._known)
            self._promise = None
            self.found = Found(0, self.found.discarded)

    def doubt(self, ranges: Ranges) -> None:
        """Count ranges as missing that may be wrong, and hash anew from the start; their bytes stay until overwritten.

        Only when nobody writes.
        """
        for start, end in ranges:
            self._written = subtract(self._written, start, end)
        self._verifier = Verifier(self.file, self._known)
        self._promise = None
        self._begin_journal()

    def differs(self, data: memoryview, offset: int) -> int | None:
        """Return where these bytes first differ from those that lie at the offset; None where they do not."""
        there = memoryview(bytearray(len(data)))
        self._blocks.read_into(there, offset)
        if there == data:
            return None
        return offset + next(n for n, (one, other) in enumerate(zip(there, data, strict=True)) if one != other)

    def discard(self) -> None:
        """Remove the partial: its file is proven without it."""
        with self._journal_lock:
            self._closed = True
            self._journal.remove()
            files.remove(self.path)
            self._blocks.close()

    def close(self) -> None:
        """Leave the partial, durable, for a later run; an empty one is removed."""
        if self._written and self._broken is None:
            with suppress(KbootError):  # the next run builds on what the journal says
                self.checkpoint()
        with self._journal_lock:
            if self._closed:
                return
            self._closed = True
            if not self._written:
                self._journal.remove()
                files.remove(self.path)
            self._journal.close()
            self._blocks.close()

    def _miss(self, wrong: WrongRange) -> None:
        """Count a range as missing. One that is wrong each time may be right, and what is known of it wrong."""
        self._wrong[wrong.start] += 1
        if self._wrong[wrong.start] >= _DOUBT_AT:
            self._known = NO_PREFIXES
            self._verifier.doubt()
        with self._lock:
            self._written = subtract(self._written, wrong.start, wrong.end)

    def _check_sound(self) -> None:
        if self._broken is not None:
            raise self._broken

    def _catch_up(self, buffer: memoryview, budget_bytes: int) -> None:
        """Feed the hash from the file, as far as the front is contiguous; the hash lock is held."""
        while budget_bytes > 0:
            self._keep_promise()
            fed = self._verifier.fed_bytes
            wanted = min(self._next_stop(fed) - fed, len(buffer), budget_bytes, BUFFER_BYTES)
            if wanted <= 0:
                return
            got = self._blocks.read_into(buffer[:wanted], fed)
            if got < wanted:
                raise self._damaged(f"ends at byte {fed + got}, although byte {fed + wanted} was written")
            self._verifier.feed(buffer[:got])
            budget_bytes -= got
        self._keep_promise()

    def _next_stop(self, fed: int) -> int:
        front = prefix(self._written)
        return min(front, self._promise[0]) if self._promise and fed < self._promise[0] else front

    def _keep_promise(self) -> None:
        if not self._promise or self._verifier.fed_bytes < self._promise[0]:
            return
        hashed_bytes, digest = self._promise
        self._promise = None
        if self._verifier.so_far() != digest:
            raise self._damaged(f"the first {hashed_bytes} bytes are not the ones that were written")

    def _damaged(self, what: str) -> VerificationFailed:
        return VerificationFailed(
            "partial-damaged",
            f"{self.file.path}: the partial on disk {what}",
            where=(str(self.path),),
            hint="kboot begins the file again; look for disk errors: `dmesg | tail`",
        )

    def _record(self) -> tuple[Record, int]:
        # Hash first: what it has seen was written before, so the ranges taken next hold it.
        with self._hash_lock:
            hashed_bytes, digest = self._verifier.fed_bytes, self._verifier.so_far()
        with self._lock:
            ranges, unsynced = self._written, self._unsynced_bytes
        file = self.file
        return (
            Record(0, self._boot_id, file.blob_id, file.size_bytes, self._blocks.inode, ranges, hashed_bytes, digest),
            unsynced,
        )

    def _note(self) -> None:
        # Not while another thread notes: its record is as good, and this one's stream need not wait.
        if self._boot_id and self._journal_lock.acquire(blocking=False):
            try:
                self._journal.cached(self._record()[0])
            finally:
                self._journal_lock.release()

    def _begin_journal(self) -> None:
        """Begin it before the first write beyond a gap: a length without a journal means "written from the start"."""
        if not self._boot_id:
            self.checkpoint()
            return
        with self._journal_lock:
            if not self._journal.begun:
                self._journal.cached(self._record()[0])

    def _push(self, window: int) -> None:
        """Start writing the window before this one, and wait for the one two further back."""
        self._blocks.push((window - 1) * WINDOW_BYTES, WINDOW_BYTES)
        if window >= 3:
            self._blocks.settle((window - 3) * WINDOW_BYTES, WINDOW_BYTES)
