"""Are the files under their final names the bytes of the commit? Proves them by hash, structure or ledger."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import field, replace
from pathlib import Path
from typing import BinaryIO, assert_never

from kboot.apply.mend import mends
from kboot.apply.outcome import Effect, carry_out, skipped
from kboot.apply.pace import FULL_PACE, Pace, Throttle
from kboot.apply.verify_image import compare_with_image
from kboot.checkpoint import Listing, LocalFile, RemoteFile
from kboot.errors import ActionFailed, VerificationFailed
from kboot.events import Emit, FileDone, FileProgress, FileTrouble, Notice
from kboot.host.clock import monotonic_s
from kboot.host.os_errors import explain_os_error
from kboot.host.pagecache import resident_in
from kboot.pieces import PIECE_BYTES
from kboot.plan.types import VerifyFile
from kboot.report.types import Outcome
from kboot.store import structure
from kboot.store.hashing import hash_file
from kboot.store.selection import LIMIT_INDEX_BYTES, find_index
from kboot.store.store import Store
from kboot.values import dataclass

_PROGRESS_EVERY_S = 0.5
_LEAST_THREADS = 8
_MOST_THREADS = 32
_MOSTLY = 0.9
_SAMPLE_BYTES = 16 << 20


def threads_for(actions: Sequence[VerifyFile], listing: Listing, store: Store, cpus: int) -> int:
    """Return how many files are to be read at once on this many CPUs.

    In memory: one for each CPU, more would only take turns. On the disk: more, so that a CPU works while others wait
    for the disk, and so that the disk is kept busy where the kernel reads only 128 KiB ahead of each.
    """
    files = [a.file for a in actions if a.mode == "full"]
    asked = sum(min(_SAMPLE_BYTES, file.size_bytes) for file in files)
    warm = sum(_warm_sample(store.content_path(listing.repo, file)) for file in files) >= _MOSTLY * asked
    return min(_MOST_THREADS, cpus if warm else max(_LEAST_THREADS, 2 * cpus))


def _warm_sample(content: Path) -> int:
    """Return how much of the first bytes is in memory; asking for all of a checkpoint in small pages takes seconds."""
    try:
        return resident_in(content, [(0, min(_SAMPLE_BYTES, content.stat().st_size))]) or 0
    except OSError:  # not there: told when its turn comes
        return 0


def verify_files(
    actions: Sequence[VerifyFile],
    listing: Listing,
    store: Store,
    threads: int,
    emit: Emit,
    stop: threading.Event,
    may_mend: bool = False,
    pace: Pace = FULL_PACE,
) -> tuple[Outcome, ...]:
    """Prove each file in the mode its action asks for; what is found out goes into the ledger.

    full reads and hashes every byte, several files at once, largest first, and evicts nothing: it is also the warm
    pass. In the background it takes the actions in their order, one at a time, reads the disk past the page cache, and
    evicts nothing either. Once stopped, files not begun are skipped. may_mend: what is wrong is not the last word.
    """
    throttle = Throttle(pace.rate_mib_s << 20, stop)
    local_of = {f.file.path: f for f in store.local(listing)}
    job = _Job(listing, store, local_of, emit, stop, may_mend, pace.background, throttle)
    ordered = actions if pace.background else sorted(actions, key=lambda a: (-a.file.size_bytes, a.file.path))
    if pace.background:
        threads = 1
    with ThreadPoolExecutor(max(1, threads), thread_name_prefix="verify") as pool:
        outcome_of = dict(zip(ordered, pool.map(job.verify, ordered)))
    store.ledger.settle()
    if job.unkept:
        text = f"what was found out of {len(job.unkept)} files is not written down: {job.unkept[0]}"
        emit(Notice("ledger.not_written", text))
    for path, error in _check_index(job).items():
        for action in (a for a in actions if a.file.path == path and outcome_of[a].error is None):
            emit(FileTrouble("verify", path, error.code, error.message, final=True))
            outcome_of[action] = replace(outcome_of[action], status="failed", error=error)
    return tuple(outcome_of[action] for action in actions)


def ledger_check(listing: Listing, store: Store) -> tuple[LocalFile, ...]:
    """Return the wanted files that the ledger does not vouch for; reads no content."""
    return tuple(local for local in store.local(listing) if local.state != "verified")


@dataclass(frozen=True, slots=True)
class _Job:
    listing: Listing
    store: Store
    local_of: Mapping[str, LocalFile]
    emit: Emit
    stop: threading.Event
    may_mend: bool
    past_cache: bool
    throttle: Throttle
    headers: dict[str, structure.Header] = field(default_factory=dict)
    unkept: list[str] = field(default_factory=list)

    def verify(self, action: VerifyFile) -> Outcome:
        if self.stop.is_set():
            return skipped("verify", action, "kboot was stopped")
        started_s = monotonic_s()
        outcome = carry_out("verify", action, lambda: self._prove(action))
        file = action.file
        if outcome.error:
            error = outcome.error
            final = not (self.may_mend and mends(error))
            if error.code != "interrupted":  # it was not looked at to its end: that is no trouble of the file
                self.emit(FileTrouble("verify", file.path, error.code, error.message, final))
        else:
            self.emit(FileDone("verify", file.path, file.size_bytes, monotonic_s() - started_s, "this disk"))
        return outcome

    def _prove(self, action: VerifyFile) -> Effect:
        local = self.local_of.get(action.file.path) or LocalFile(action.file, "absent", 0, why="not listed")
        if local.state in ("absent", "partial"):
            raise VerificationFailed("file-missing", f"{action.file.path}: {local.why or 'is not on this disk'}")
        if local.state == "shared":
            return self._in_part(action, local)
        match action.mode:
            case "full":
                return self._full(action.file)
            case "quick":
                return self._quick(action.file, local)
            case "bake":
                return self._of_image(action.file)
            case "ledger":
                _vouched(local)
                return Effect("unchanged", after=local.state)
            case other:
                assert_never(other)

    def _full(self, file: RemoteFile) -> Effect:
        blob = self.store.blob_path(self.listing.repo, file.blob_id)
        try:
            known = self.store.ledger.prefixes(file.blob_id)
            on_bytes = _progress(file, self.emit, self.stop, self.throttle)
            hashed = hash_file(blob, file, on_bytes=on_bytes, known=known, past_cache=self.past_cache)
        except VerificationFailed as exc:
            raise self._condemned(file, blob, exc) from exc
        except ActionFailed as exc:
            if exc.code != "storage-error":
                raise
            unreadable = VerificationFailed("file-unreadable", f"{file.path}: the disk cannot read all of it")
            raise self._condemned(file, blob, unreadable) from exc
        if (problem := self._read_structure(file, blob)) is not None:
            raise structure.published_broken(file, problem)
        self._keep(lambda: self.store.record_hashed(self.listing, file, hashed))
        return Effect(size_bytes=file.size_bytes, after="every byte hashed", source="this disk")

    def _in_part(self, action: VerifyFile, local: LocalFile) -> Effect:
        """Prove what is here of a file by the range digests that were kept: its own hash is of all of it."""
        if action.mode != "full":
            return Effect("unchanged", after=f"unchanged since; {local.why}")

        def go_on() -> bool:
            self.throttle.pass_by(PIECE_BYTES)
            return not self.stop.is_set()

        size_bytes = self.store.shares.prove(self.listing, action.file, go_on)
        after = f"every byte that is here hashed, by range digests of {local.told_by}"
        return Effect(size_bytes=size_bytes, after=after, source="this disk")

    def _quick(self, file: RemoteFile, local: LocalFile) -> Effect:
        blob = self.store.blob_path(self.listing.repo, file.blob_id)
        mark = self.store.mark(blob)
        problem = self._read_structure(file, blob)
        if local.state == "damaged":
            raise VerificationFailed("file-damaged", f"{file.path}: {problem.text if problem else local.why}")
        if problem is not None:
            if local.state == "verified":
                raise structure.published_broken(file, problem)
            self._keep(lambda: self.store.record(self.listing, file, mark, "damaged", "this disk", problem.text))
            raise VerificationFailed(f"structure-{problem.code}", f"{file.path}: {problem.text}", where=(str(blob),))
        if local.state == "verified":
            return Effect("unchanged", after="structure fits, unchanged since its bytes were hashed")
        self._keep(lambda: self.store.record(self.listing, file, mark, "quick", "this disk"))
        return Effect(after="structure fits, its bytes were not hashed")

    def _of_image(self, file: RemoteFile) -> Effect:
        """Compare a file with what the image's manifest says of it; a small one is hashed."""
        blob = self.store.blob_path(self.listing.repo, file.blob_id)
        mark = self.store.mark(blob)
        found = compare_with_image(self.store.paths.state, blob, file)
        if found.how == "full" or self._read_structure(file, blob) is not None:
            return self._full(file)  # which says what is wrong, and condemns it
        self._keep(lambda: self.store.record(self.listing, file, mark, found.how, "the image"))
        return Effect(size_bytes=found.read_bytes, after=found.words, source="this disk")

    def _read_structure(self, file: RemoteFile, blob: Path) -> structure.Problem | None:
        """Return what is wrong with the file's form; remember the headers of shards for the index."""
        try:
            found = read_structure(blob, file)
        except OSError as exc:
            raise explain_os_error(exc, f"read {file.path}", blob) from exc
        if isinstance(found, structure.Header):
            self.headers[file.path] = found
            return None
        return found

    def _keep(self, write: Callable[[], object]) -> None:
        """Write down what was found out; where nothing can be written it holds for this run."""
        try:
            write()
        except ActionFailed as exc:
            self.unkept.append(exc.message)

    def _condemned(self, file: RemoteFile, blob: Path, exc: VerificationFailed) -> VerificationFailed:
        """Write down that the file is not what it should be, and say what it is instead where that can be told."""
        if exc.code == "file-changed-while-read":
            self._keep(lambda: self.store.forget(self.listing, file))
            return exc
        try:
            mark = self.store.mark(blob)
        except OSError:  # gone meanwhile
            self._keep(lambda: self.store.forget(self.listing, file))
            return exc
        try:
            what = read_structure(blob, file)
        except OSError:
            what = None
        said = f"{file.path}: {what.text}" if isinstance(what, structure.Problem) else exc.message
        detail = said.removeprefix(f"{file.path}: ")
        self._keep(lambda: self.store.record(self.listing, file, mark, "damaged", "this disk", detail))
        return VerificationFailed(
            exc.code,
            said,
            where=(*exc.where, str(blob)),
            hint="`kboot fetch` gets it again; damage that comes back is the disk's or the memory's",
        )


def read_structure(path: Path, file: RemoteFile) -> structure.Header | structure.Problem | None:
    """Return a shard's header, or what is wrong with a file's form; None for other files that look right.

    Raises:
        OSError: it cannot be read.
    """
    size_bytes = path.stat().st_size
    if size_bytes == file.size_bytes == 0:
        return None
    with path.open("rb") as content:
        found = _read_form(content, file, size_bytes)
    if isinstance(found, structure.Problem) or size_bytes == file.size_bytes:
        return found
    code: structure.Code = "cut" if size_bytes < file.size_bytes else "trailing-bytes"
    return structure.Problem(code, f"has {size_bytes} bytes, listed are {file.size_bytes}")


def _read_form(content: BinaryIO, file: RemoteFile, size_bytes: int) -> structure.Header | structure.Problem | None:
    head = content.read(structure.HEAD_BYTES)
    if not file.path.endswith(".safetensors"):
        return structure.recognise(head, size_bytes)
    end = structure.header_end(head, size_bytes)
    if isinstance(end, structure.Problem):
        return end
    return structure.parse_header(head + content.read(max(0, end - len(head))), size_bytes)


def _vouched(local: LocalFile) -> None:
    if local.state != "verified":
        raise VerificationFailed(
            "not-verified",
            f"{local.file.path}: {local.why or local.state}",
            hint="`kboot verify --mode full` hashes it",
        )


def _progress(file: RemoteFile, emit: Emit, stop: threading.Event, throttle: Throttle) -> Callable[[int], bool]:
    next_s, before_bytes = monotonic_s() + _PROGRESS_EVERY_S, 0

    def on_bytes(done_bytes: int) -> bool:
        nonlocal next_s, before_bytes
        throttle.pass_by(done_bytes - before_bytes)
        before_bytes = done_bytes
        if (now_s := monotonic_s()) >= next_s:
            next_s = now_s + _PROGRESS_EVERY_S
            emit(FileProgress("verify", file.path, done_bytes, file.size_bytes))
        return not stop.is_set()

    return on_bytes


def _check_index(job: _Job) -> Mapping[str, VerificationFailed]:
    """Compare the index with the headers that were read; return the first error of each shard, and tell the rest."""
    file = find_index(job.listing.files)
    data = job.store.read_proven(job.listing.repo, file, LIMIT_INDEX_BYTES) if file and job.headers else None
    if data is None:
        return {}
    try:
        index = structure.parse_index(data)
    except structure.NotValid as exc:
        job.emit(Notice("index.not_valid", f"the weight index is not compared with the shards: {exc}"))
        return {}
    whole = {path for path, local in job.local_of.items() if local.is_whole}
    if lost := structure.missing_shards(index, whole):
        job.emit(Notice("index.shards_missing", f"not whole on this disk, the index names them: {', '.join(lost)}"))
    findings = structure.check_index(index, job.headers)
    for severity in ("warn", "error"):
        if texts := [f"{f.shard}: {f.text}" for f in findings if f.severity == severity]:
            more = f" (and {len(texts) - 1} more like it)" if len(texts) > 1 else ""
            job.emit(Notice("index.does_not_fit", texts[0] + more))
    return {
        f.shard: VerificationFailed(
            "index-does-not-fit",
            f"{f.shard}: {f.text}",
            hint="it was published like this if every byte was hashed: pin another revision",
        )
        for f in reversed(findings)
        if f.severity == "error"
    }
