"""What of a checkpoint is on this disk, and how does a proven file get its final name?"""

from __future__ import annotations

import errno
import posixpath
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from kboot.checkpoint import Listing, LocalFile, RemoteFile, is_commit, is_inside
from kboot.errors import ActionFailed, VerificationFailed
from kboot.events import Emit, Event, Notice
from kboot.host.blocks import taken_bytes
from kboot.host.clock import unix_s
from kboot.host.files import (
    Identity,
    atomic_write,
    exists,
    fsync_dir,
    identity,
    make_dirs,
    read_small,
    rename,
    replace_link,
)
from kboot.host.paths import Paths
from kboot.host.verity import enable, may_enable
from kboot.store import layout, trees
from kboot.store.enforced import enforced_by, with_proof
from kboot.store.hashing import Hashed, hash_file
from kboot.store.judging import judged
from kboot.store.ledger import How, Ledger, Row
from kboot.store.marks import Mark, MarkReader
from kboot.store.part_trust import have_bytes
from kboot.store.shares import Shares
from kboot.store.sweep import sweep
from kboot.store.verifier import NO_PREFIXES, Prefixes, prove


def _quiet(_: Event) -> None:
    """Emit to nobody."""


class Store:
    """The checkpoints of one node: blobs in the Hugging Face cache layout, and the ledger that says which are proven.

    Safe to use from any thread. It trusts nothing that it does not find proven in the ledger.
    """

    def __init__(self, paths: Paths, emit: Emit = _quiet) -> None:
        self.paths = paths
        self.ledger = Ledger(paths.ledger, emit)
        self._emit = emit
        self._marks = MarkReader()
        self.shares = Shares(paths.shares, self._marks)
        self._remembered: set[tuple[str, str]] = set()

    # -- where things are

    def folder(self, repo: str) -> layout.RepoFolder:
        """Return the repository's folder, there or not."""
        return layout.repo_folder(self.paths.hub, repo)

    def blob_path(self, repo: str, blob_id: str) -> Path:
        """Return where the proven content lies."""
        return self.folder(repo).blob(blob_id)

    def content_path(self, repo: str, file: RemoteFile) -> Path:
        """Return where the bytes of a file are: the proven content, or what is here of it in part."""
        blob = self.blob_path(repo, file.blob_id)
        if exists(blob):
            return blob
        data = self.shares.data_path(repo, file.blob_id)
        return data if exists(data) else blob

    def part_path(self, repo: str, blob_id: str) -> Path:
        """Return where the content grows while it is fetched; the same name in every run."""
        return self.folder(repo).part(blob_id)

    def snapshot_path(self, listing: Listing) -> Path:
        """Return the folder of links that an engine reads; one of its own where files are here in part."""
        if self.is_shared(listing):
            return self.shares.snapshot(listing)
        return self.folder(listing.repo).snapshot(listing.commit)

    def is_shared(self, listing: Listing) -> bool:
        """Return whether some files are here in part, as this node's ranks load them."""
        return exists(self.shares.folder(listing.repo)) and any(f.state == "shared" for f in self.local(listing))

    # -- what is known

    def known_listing(self, repo: str, revision: str) -> Listing | None:
        """Return the listing of a commit, or of the commit a branch last stood for, from this disk alone.

        `Listing.repo` is spelled as on this disk, which may differ from `repo` in letter case.

        Raises:
            UsageError: the id is on this disk in several spellings and none is exact.
        """
        spelled = layout.spelled_on_disk(self.paths.hub, repo)
        commit = spelled and (revision if is_commit(revision) else self._commit_of(spelled, revision))
        if not spelled or not commit:
            return None
        if spelled != repo:
            self._emit(Notice("repo.respelled", f"{repo} is on this disk as {spelled}: taken for the same repository"))
        return self._read_tree(spelled, revision, commit)

    def remember(self, listing: Listing) -> None:
        """Write trees/<commit>.json, so that a later boot needs no request and hub notices a missing shard."""
        path = self.folder(listing.repo).tree(listing.commit)
        data = trees.encode_tree(listing)
        if _read_or_none(path) != data:
            make_dirs(path.parent)
            atomic_write(path, data)
        self._remembered.add((listing.repo, listing.commit))

    def _commit_of(self, repo: str, branch: str) -> str | None:
        if not is_inside(branch):
            return None
        data = _read_or_none(self.folder(repo).ref(branch)) or b""
        commit = data.decode("ascii", "replace").strip()
        return commit if is_commit(commit) else None

    def _read_tree(self, repo: str, revision: str, commit: str) -> Listing | None:
        path = self.folder(repo).tree(commit)
        try:
            return trees.decode_tree(read_small(path, trees.LIMIT_BYTES), repo, revision, commit)
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as exc:
            self._emit(Notice("listing.unreadable", f"{path} is not used, the listing is asked for again: {exc}"))
            return None

    # -- what is here

    def local(self, listing: Listing) -> tuple[LocalFile, ...]:
        """Return the state of each wanted file, from names, identities and the ledger; no content is read."""
        rows, blobs = self.ledger.rows(listing.repo), self.folder(listing.repo).blobs
        return tuple(self._local(listing.repo, file, blobs, rows.get(file.blob_id)) for file in listing.files)

    def look(self, repo: str, file: RemoteFile) -> LocalFile:
        """Return the state of one file as it is now; no content is read."""
        return self._local(repo, file, self.folder(repo).blobs, self.ledger.row(repo, file.blob_id))

    def read_proven(self, repo: str, file: RemoteFile, limit_bytes: int) -> bytes | None:
        """Return the content of a small file if it is on this disk and is what the commit lists; it is hashed now."""
        try:
            data = read_small(self.blob_path(repo, file.blob_id), limit_bytes)
            prove(file, data)
        except (OSError, VerificationFailed):
            return None
        return data

    def mark_of(self, path: Path, found: Identity) -> Mark:
        """Return the mark of a file whose identity was read from the open file."""
        return self._marks.mark(path, found)

    def mark(self, path: Path) -> Mark:
        """Return what the file is recognised by.

        Raises:
            OSError: there is no such file.
        """
        return self._marks.mark(path, identity(path))

    def _local(self, repo: str, file: RemoteFile, blobs: Path, row: Row | None) -> LocalFile:
        blob = blobs / file.blob_id
        try:
            found = self.mark(blob)
        except OSError as exc:
            return self._not_here(repo, file, blob, exc)
        if found.size_bytes != file.size_bytes:
            why = f"its size is {found.size_bytes}, listed is {file.size_bytes}"
            return self._with_reserved(repo, LocalFile(file, "damaged", found.size_bytes, why=why))
        return self._with_reserved(repo, with_proof(judged(file, found, row), row, blob))

    def _not_here(self, repo: str, file: RemoteFile, blob: Path, exc: OSError) -> LocalFile:
        if exc.errno not in (errno.ENOENT, errno.ELOOP):
            return LocalFile(file, "absent", 0, why=f"cannot be looked at: {exc.strerror}")
        if shared := self.shares.look(repo, file):
            return shared
        if have := have_bytes(self.part_path(repo, file.blob_id), file):
            return self._with_reserved(repo, LocalFile(file, "partial", have))
        why = "its link leads to nothing" if blob.is_symlink() else self.shares.unproven(repo, file)
        return self._with_reserved(repo, LocalFile(file, "absent", 0, why=why))

    def _with_reserved(self, repo: str, local: LocalFile) -> LocalFile:
        """Add what the disk gave to its partial: a killed fetch leaves blocks behind that nothing was written to."""
        if local.state not in ("absent", "partial", "damaged"):
            return local
        taken = taken_bytes(self.part_path(repo, local.file.blob_id))
        return replace(local, reserved_bytes=taken) if taken else local

    # -- what becomes known

    def admit(
        self, listing: Listing, file: RemoteFile, part: Path, source: str, prefixes: Prefixes = NO_PREFIXES
    ) -> None:
        """Give proven bytes their final name. The caller has hashed `part` and made it durable.

        prefixes: what its beginnings hash to, for a later repair.

        After a crash between any two steps the blob is either still the part, or has its name without a row in the
        ledger: then it is hashed again from this disk, not fetched. A file that another process of this node admitted
        meanwhile is fine.

        Raises:
            KbootError: the disk refuses, or the part is not the file.
        """
        if (listing.repo, listing.commit) not in self._remembered:
            self.remember(listing)
        blob = self.blob_path(listing.repo, file.blob_id)
        try:
            size_bytes = identity(part).size_bytes
        except FileNotFoundError as exc:
            if self.look(listing.repo, file).state == "verified":
                return
            raise ActionFailed("part-vanished", f"{file.path}: its proven part is gone", where=(str(part),)) from exc
        if size_bytes != file.size_bytes:
            raise VerificationFailed(
                "part-size-mismatch", f"{file.path}: part has {size_bytes} bytes, listed are {file.size_bytes}"
            )
        rename(part, blob)
        self.record(listing, file, self.mark(blob), "fetch", source)
        self.ledger.keep_prefixes(file.blob_id, prefixes)

    def record_hashed(self, listing: Listing, file: RemoteFile, hashed: Hashed) -> None:
        """Write down that every byte of a blob was read from this disk and is right; durable after ledger.settle()."""
        mark = self.mark_of(self.blob_path(listing.repo, file.blob_id), hashed.identity)
        enforced = enforced_by(self.blob_path(listing.repo, file.blob_id))
        self.ledger.record([_row(listing, file, file.blob_id, mark, "full", "this disk", enforced)], durable=False)
        if not self.ledger.prefixes(file.blob_id).digests:
            self.ledger.keep_prefixes(file.blob_id, hashed.prefixes)

    def record(self, listing: Listing, file: RemoteFile, mark: Mark, how: How, source: str, detail: str = "") -> None:
        """Write down what was found out about a blob that had this mark while it was read."""
        self.ledger.record([_row(listing, file, file.blob_id, mark, how, source, detail)])

    def keep_proof(self, listing: Listing, file: RemoteFile, work: Callable[[Path], bool]) -> bool:
        """Do something to a proven blob that changes nothing but its ctime, and let it stay proven; return its answer.

        Raises:
            KbootError: the work failed, or the blob is not the one that was proven.
        """
        blob, row = self.blob_path(listing.repo, file.blob_id), self.ledger.row(listing.repo, file.blob_id)
        before = self.mark(blob)
        if row is None or not row.mark.same_file(before):
            raise VerificationFailed("not-proven", f"{file.path} changed since it was proven", where=(str(blob),))
        done = work(blob)
        after = self.mark(blob)
        if replace(after, ctime_ns=before.ctime_ns) == before:
            self.ledger.record([replace(row, mark=after)])
        return done

    def enforce(self, listing: Listing, file: RemoteFile) -> bool:
        """Let the kernel prove a proven blob at every read from now on, and write that down; False where it cannot.

        Raises:
            KbootError: it failed, or the blob is not the one that was proven.
        """
        if not self.keep_proof(listing, file, enable):
            return False
        if row := self.ledger.row(listing.repo, file.blob_id):
            enforced = enforced_by(self.blob_path(listing.repo, file.blob_id))
            self.ledger.record([replace(row, detail=enforced)])
        return True

    def unenforced(self, listing: Listing) -> tuple[RemoteFile, ...]:
        """Return the proven files that the kernel could prove at every read, and does not yet."""
        here = [local for local in self.local(listing) if local.state == "verified" and not local.enforced]
        return tuple(f.file for f in here if may_enable(self.blob_path(listing.repo, f.file.blob_id)))

    def forget(self, listing: Listing, file: RemoteFile) -> None:
        """Make a file count as never hashed."""
        self.ledger.forget(listing.repo, file.blob_id)

    # -- what an engine reads

    def link(self, listing: Listing, file: RemoteFile, *, symlinks: bool = True) -> layout.LinkKind:
        """Put one file into the snapshot and make what was done to it known to the ledger.

        A hard link changes the blob's ctime; a copy is hashed before it counts. A symbolic link is durable after
        settle_links().

        Raises:
            KbootError: the disk refuses, or the copy is not the file.
        """
        folder = self.folder(listing.repo)
        blob, link = folder.blob(file.blob_id), folder.snapshot(listing.commit) / file.path
        target = layout.link_target(file.path, file.blob_id)
        before = self.mark(blob)
        kind = layout.place(blob, link, target, symlinks=symlinks)
        if kind == "link":
            row, after = self.ledger.row(listing.repo, file.blob_id), self.mark(blob)
            if row is not None and row.mark.same_file(before) and replace(after, ctime_ns=before.ctime_ns) == before:
                self.ledger.record([replace(row, mark=after)])
        elif kind == "copy":
            proven = self._marks.mark(link, hash_file(link, file).identity)
            self.ledger.record([_row(listing, file, _copy_name(listing, file), proven, "full", "copy of the blob")])
        return kind

    def settle_links(self, listing: Listing) -> None:
        """Make the links of a snapshot durable, those of a killed run too: one sync a folder, not one a link."""
        snapshot = self.snapshot_path(listing)
        for folder in {(snapshot / file.path).parent for file in listing.files}:
            fsync_dir(folder)

    def unlinked(self, listing: Listing) -> tuple[RemoteFile, ...]:
        """Return the wanted files that the snapshot does not hold as verified content."""
        folder, rows = self.folder(listing.repo), self.ledger.rows(listing.repo)
        if self.is_shared(listing):
            linked = self.shares.is_linked
            return tuple(f for f in listing.files if not linked(listing, f, folder.blob(f.blob_id)))
        snapshot, blobs = folder.snapshot(listing.commit), folder.blobs
        return tuple(
            file
            for file in listing.files
            if not self._is_linked(snapshot / file.path, file, blobs, rows.get(_copy_name(listing, file)))
        )

    def _is_linked(self, link: Path, file: RemoteFile, blobs: Path, copy: Row | None) -> bool:
        if layout.leads_to(link, layout.link_target(file.path, file.blob_id), blobs / file.blob_id):
            return True
        return copy is not None and not link.is_symlink() and link.is_file() and self.mark(link).same_file(copy.mark)

    def is_published(self, listing: Listing, model_path: Path) -> bool:
        """Return whether snapshot, listing and ref are whole and the serving path leads to the snapshot."""
        folder = self.folder(listing.repo)
        return (
            model_path.is_symlink()
            and str(model_path.readlink()) == _model_target(self.snapshot_path(listing), model_path)
            and _read_or_none(folder.tree(listing.commit)) == trees.encode_tree(listing)
            and (is_commit(listing.revision) or self._commit_of(listing.repo, listing.revision) == listing.commit)
            and not self.unlinked(listing)
            and not self.old_parts(listing)
        )

    def old_parts(self, listing: Listing) -> tuple[RemoteFile, ...]:
        """Return the files that are proven as a whole and still have a part beside it, to which nothing leads."""
        if not exists(self.shares.folder(listing.repo)):
            return ()
        whole = (f.file for f in self.local(listing) if f.state == "verified")
        return tuple(f for f in whole if exists(self.shares.data_path(listing.repo, f.blob_id)))

    def set_ref(self, listing: Listing) -> None:
        """Remember which commit the branch or tag stands for; nothing for a pin."""
        if is_commit(listing.revision) or not is_inside(listing.revision):
            return
        ref = self.folder(listing.repo).ref(listing.revision)
        if self._commit_of(listing.repo, listing.revision) != listing.commit:
            make_dirs(ref.parent)
            atomic_write(ref, listing.commit.encode())  # no newline: hub takes the content as it is

    def set_model(self, listing: Listing, model_path: Path) -> None:
        """Point the serving path at the snapshot, in one step and by a relative link."""
        make_dirs(model_path.parent)
        replace_link(model_path, _model_target(self.snapshot_path(listing), model_path))

    def commit_at(self, model_path: Path) -> str:
        """Return the commit that the serving path leads to; empty where it leads nowhere yet."""
        return model_path.readlink().name if model_path.is_symlink() else ""

    # -- what nobody needs

    def sweep(self, repo: str) -> int:
        """Remove what killed downloads left of a repository and nobody will use again; return the bytes won."""
        blobs = self.folder(repo).blobs
        won = sweep(blobs)
        if won:
            self._emit(Notice("parts.swept", f"{won} bytes of killed downloads were removed from {blobs}"))
        return won


def _row(listing: Listing, file: RemoteFile, name: str, mark: Mark, how: How, source: str, detail: str = "") -> Row:
    sha256 = file.sha256 or ""
    return Row(listing.repo, name, listing.commit, file.path, sha256, mark, how, unix_s(), source, detail)


def _model_target(snapshot: Path, model_path: Path) -> str:
    return posixpath.relpath(snapshot, model_path.parent)


def _copy_name(listing: Listing, file: RemoteFile) -> str:
    return f"snapshots/{listing.commit}/{file.path}"


def _read_or_none(path: Path) -> bytes | None:
    try:
        return read_small(path, trees.LIMIT_BYTES)
    except OSError:
        return None
