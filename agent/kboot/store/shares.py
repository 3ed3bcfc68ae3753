"""What of files that are here in part is proven, and how does an engine reach it?

Nothing of it lies below the Hub's folder, where every program takes a file under its name for a whole one. For each
file `pieces/<blob>` has the bytes, holes where nothing was fetched, `digests/<blob>.json` what its pieces hash to, and
`records/<blob>.json` which of them were proven, for the file as it was then. The digests are durable before the first
byte is written; a file that no record is right about is proven again from them, so that a kill loses nothing.
"""

from __future__ import annotations

import hashlib
import json
import posixpath
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from kboot.checkpoint import Listing, LocalFile, RemoteFile
from kboot.errors import ActionFailed, VerificationFailed
from kboot.host.blocks import BlockFile, taken_bytes
from kboot.host.clock import unix_s
from kboot.host.files import (
    atomic_write,
    exists,
    file_names,
    identity,
    make_dirs,
    read_small,
    remove,
    remove_tree,
    replace_link,
)
from kboot.host.pagecache import new_buffer
from kboot.host.sharing import require_own
from kboot.jsontext import parse_json
from kboot.pieces import PIECE_BYTES, Pieces, bytes_of, piece_range, pieces_in, runs_of
from kboot.quantities import show_bytes
from kboot.store import layout
from kboot.store.digests import Digests, document_of, read_document
from kboot.store.marks import Mark, MarkReader
from kboot.values import dataclass

_SCHEMA = 1
_LIMIT_BYTES = 128 << 20
_LIMIT_RECORD_BYTES = 4 << 20
_MACHINE_ID = Path("/etc/machine-id")


@dataclass(frozen=True, slots=True)
class Record:
    """What was proven of one file that had this mark. told_by: the node whose digests were believed.

    digests: what all of them hash to. Those that are kept may be another node's by now, if kboot was killed in between.
    """

    pieces: Pieces
    mark: Mark
    told_by: str
    digests: str
    unix_s: float


class Shares:
    """The files of one node that are here in part. For any thread."""

    def __init__(self, root: Path, marks: MarkReader) -> None:
        self._root = root
        self._marks = marks

    def folder(self, repo: str) -> Path:
        """Return the repository's folder, there or not."""
        return layout.repo_folder(self._root, repo).path

    def data_path(self, repo: str, blob_id: str) -> Path:
        """Return where the bytes of a file are."""
        return self.folder(repo) / "pieces" / blob_id

    def snapshot(self, listing: Listing) -> Path:
        """Return the folder of links that an engine reads where some files are here in part."""
        return self.folder(listing.repo) / "snapshots" / listing.commit

    # -- what is known

    def look(self, repo: str, file: RemoteFile) -> LocalFile | None:
        """Return a file of which something is here and proven; None without. No content is read."""
        record = self.record(repo, file)
        if record is None or not record.pieces:
            return None
        have, told_by = bytes_of(record.pieces, file.size_bytes), record.told_by
        why = f"{show_bytes(have)} of it are here, proven by range digests of {told_by}"
        loaded = runs_of(record.pieces, file.size_bytes)
        return LocalFile(file, "shared", have, record.unix_s, why=why, loaded=loaded, told_by=told_by)

    def unproven(self, repo: str, file: RemoteFile) -> str:
        """Say what is here of a file that no record is right about, changed or from before a kill; empty: nothing."""
        size_bytes = taken_bytes(self.data_path(repo, file.blob_id))
        if not size_bytes:
            return ""
        return f"{show_bytes(size_bytes)} of it are here in part, which nothing proves until a boot hashes them again"

    def record(self, repo: str, file: RemoteFile) -> Record | None:
        """Return what was proven of a file, if it has not changed since; another user's word proves nothing."""
        if not exists(self.folder(repo)):
            return None
        said, path = self._record_path(repo, file.blob_id), self.data_path(repo, file.blob_id)
        try:
            require_own(said)
            record = _read_record(parse_json(read_small(said, _LIMIT_RECORD_BYTES)), file)
            now = self._marks.mark(path, identity(path))
        except (ActionFailed, OSError, ValueError, KeyError, TypeError):
            return None
        return record if record.mark.same_file(now) else None

    def digests(self, repo: str, file: RemoteFile, commit: str) -> Digests | None:
        """Return the digests that are kept of a file; None where none are, or of another commit."""
        try:
            document = parse_json(self.read_digests(repo, file.blob_id))
            return read_document(document, file, commit) if isinstance(document, dict) else None
        except ValueError:
            return None

    def read_digests(self, repo: str, blob_id: str) -> bytes:
        """Return the document of the digests of a file; an empty one where it cannot be read."""
        try:
            return read_small(self._digests_path(repo, blob_id), _LIMIT_BYTES)
        except OSError:
            return b"{}"

    def keep_digests(self, repo: str, digests: Digests) -> None:
        """Write digests down, durable on return."""
        path = self._digests_path(repo, digests.blob_id)
        make_dirs(path.parent)
        atomic_write(path, json.dumps(document_of(digests)).encode())

    # -- what an engine reads

    def link(self, listing: Listing, file: RemoteFile, blob: Path) -> None:
        """Put one file into the snapshot: a link to the whole blob where there is one, else to what is here of it.

        It is durable when its folder is.
        """
        link, target = self._link(listing, file, blob)
        make_dirs(link.parent)
        replace_link(link, target, durable=False)

    def is_linked(self, listing: Listing, file: RemoteFile, blob: Path) -> bool:
        """Return whether the snapshot has the file so."""
        link, target = self._link(listing, file, blob)
        return link.is_symlink() and str(link.readlink()) == target and link.is_file()

    def forget(self, repo: str, blob_id: str) -> None:
        """Remove what is here of a file; who has it open keeps it."""
        for path in (self._record_path(repo, blob_id), self.data_path(repo, blob_id)):
            remove(path)

    def _link(self, listing: Listing, file: RemoteFile, blob: Path) -> tuple[Path, str]:
        link = self.snapshot(listing) / file.path
        content = blob if exists(blob) else self.data_path(listing.repo, file.blob_id)
        return link, posixpath.relpath(content, link.parent)

    def _digests_path(self, repo: str, blob_id: str) -> Path:
        return self.folder(repo) / "digests" / f"{blob_id}.json"

    def _record_path(self, repo: str, blob_id: str) -> Path:
        return self.folder(repo) / "records" / f"{blob_id}.json"

    # -- filling and proving

    def open(self, repo: str, file: RemoteFile, digests: Digests) -> Filling:
        """Return a file to fill. What was proven before and has not changed counts; all else is proven again.

        Raises:
            ActionFailed: another process has it.
        """
        make_dirs(self.data_path(repo, file.blob_id).parent)
        kept = self.digests(repo, file, digests.commit)
        record = self.record(repo, file)
        if record is not None and record.digests != digests.mark:
            record = None
        if kept is None or kept.digests != digests.digests:
            self.keep_digests(repo, digests)
        return Filling(self, repo, file, digests, record)

    def write_record(self, repo: str, file: RemoteFile, pieces: Pieces, digests: Digests) -> None:
        """Say what is proven of a file; its bytes are durable. Durable on return."""
        path = self.data_path(repo, file.blob_id)
        mark = self._marks.mark(path, identity(path))
        document = {
            "schema": _SCHEMA,
            "blob_id": file.blob_id,
            "size_bytes": file.size_bytes,
            "piece_bytes": PIECE_BYTES,
            "pieces": f"{pieces:x}",
            "mark": asdict(mark),
            "machine": _machine(),
            "told_by": digests.node,
            "digests": digests.mark,
            "unix_s": unix_s(),
        }
        target = self._record_path(repo, file.blob_id)
        make_dirs(target.parent)
        atomic_write(target, json.dumps(document).encode())

    def prove(self, listing: Listing, file: RemoteFile, go_on: Callable[[], bool]) -> int:
        """Hash again what is here of a file; return how many bytes that were.

        What is wrong is forgotten, so that it is fetched again.

        Raises:
            VerificationFailed: a piece is not what its digest says, or nothing says what it should be.
        """
        record = self.record(listing.repo, file)
        digests = self.digests(listing.repo, file, listing.commit)
        if record is None or digests is None:
            raise VerificationFailed("file-missing", f"{file.path}: nothing proves what is here of it")
        with self.open(listing.repo, file, digests) as filling:
            right = filling.prove(record.pieces, go_on)
            wrong = record.pieces & ~right
            filling.pieces = right
            filling.finish()
        if wrong:
            start, end = runs_of(wrong, file.size_bytes)[0]
            raise VerificationFailed(
                "share-damaged",
                f"{file.path}: bytes {start} to {end} on this disk are not those that {record.told_by} vouched for",
                hint="they are fetched again; look for disk errors: `dmesg | tail`",
            )
        return bytes_of(right, file.size_bytes)


def forget_records(root: Path) -> int:
    """Make nothing count as proven of any file that is here in part; return of how many files something did."""
    folders = [root / name / "records" for name in file_names(root)]
    found = sum(len(file_names(folder)) for folder in folders)
    for folder in folders:
        remove_tree(folder)
    return found


class Filling:
    """One file while pieces of it are fetched. A context manager; by one thread."""

    def __init__(self, shares: Shares, repo: str, file: RemoteFile, digests: Digests, record: Record | None) -> None:
        self._shares, self._repo, self.file, self._digests = shares, repo, file, digests
        self.pieces = record.pieces if record else 0
        self.received_bytes = 0
        path = shares.data_path(repo, file.blob_id)
        self._blocks = BlockFile(path)
        if not self._blocks.try_lock():
            self._blocks.close()
            raise ActionFailed(
                "share-in-use", f"another process is fetching {file.path}", where=(str(path),), hint="wait for it"
            )
        if self._blocks.size_bytes != file.size_bytes:
            self._blocks.truncate(file.size_bytes)  # a hole: no block is taken

    def __enter__(self) -> Filling:
        return self

    def __exit__(self, *_exc: object) -> None:
        self._blocks.close()

    def prove(self, wanted: Pieces, go_on: Callable[[], bool]) -> Pieces:
        """Return which of these pieces are here and right; every byte is read.

        Raises:
            ActionFailed: code "interrupted".
        """
        buffer, right = new_buffer(PIECE_BYTES), 0
        here = wanted & pieces_in(self._blocks.data_ranges())
        for start, end in runs_of(here, self.file.size_bytes):
            for offset in range(start, end, PIECE_BYTES):
                if not go_on():
                    raise ActionFailed("interrupted", f"{self.file.path}: kboot was stopped while it was hashed")
                piece = buffer[: min(PIECE_BYTES, end - offset)]
                number = offset // PIECE_BYTES
                if self._blocks.read_into(piece, offset) == len(piece) and self._digests.fits(number, piece):
                    right |= 1 << number
        return right

    def write(self, piece: int, data: memoryview) -> bool:
        """Write a piece; False where it is not what its digest says: then nothing is written."""
        if not self._digests.fits(piece, data):
            return False
        self._blocks.write(data, piece_range(self.file.size_bytes, piece)[0])
        self.pieces |= 1 << piece
        self.received_bytes += len(data)
        return True

    def finish(self) -> None:
        """Make what is here durable and write down what is proven of it."""
        self._blocks.sync()
        self._shares.write_record(self._repo, self.file, self.pieces, self._digests)


def _machine() -> str:
    """Return what tells this machine from one that was made from its disk, without giving its id away."""
    try:
        told = read_small(_MACHINE_ID, 1 << 10)
    except OSError:  # a container without one: its disk is no image of a machine
        told = b""
    return hashlib.sha256(b"kboot shares\0" + told.strip()).hexdigest()[:16]


def _read_record(document: Any, file: RemoteFile) -> Record:
    wanted: Mapping[str, Any] = {
        "schema": _SCHEMA,
        "blob_id": file.blob_id,
        "size_bytes": file.size_bytes,
        "piece_bytes": PIECE_BYTES,
        "machine": _machine(),
    }
    if any(document[name] != value for name, value in wanted.items()):
        raise ValueError("a record of something else")
    pieces = int(document["pieces"], 16)
    mark, told_by, digests = Mark(**document["mark"]), str(document["told_by"]), str(document["digests"])
    return Record(pieces, mark, told_by, digests, float(document["unix_s"]))
