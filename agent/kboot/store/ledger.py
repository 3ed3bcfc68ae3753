"""Which bytes on this node were hashed, when and how?"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing, suppress
from dataclasses import astuple, fields
from pathlib import Path
from typing import Literal, TypeVar, cast, get_args

from kboot.errors import ActionFailed, KbootError
from kboot.events import Emit, Notice
from kboot.host.clock import monotonic_s, unix_s
from kboot.host.files import exists, make_dirs, rename
from kboot.host.sharing import require_own
from kboot.store.marks import Mark
from kboot.store.verifier import NO_PREFIXES, RANGE_BYTES, Prefixes
from kboot.values import dataclass

How = Literal[
    "fetch",  # hashed while it was received
    "full",  # every byte read from this disk and hashed
    "quick",  # structure only: nobody hashed it
    "samples",  # samples of it are those of the image's manifest: nobody hashed it here
    "verity",  # its fs-verity digest is the one in the image's manifest: the file system proves what is read
    "damaged",  # hashed, and it is not what the commit lists
]

_APPLICATION = 0x6B626F74  # "kbot", in the database's header
_VERSION = 1
_BUSY_TIMEOUT_S = 20.0
_SETTLE_EVERY_S = 5.0
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Row:
    """What is known of one file.

    name: its blob id, or its path below the repository's folder where it is a copy of a blob. commit, path: where it
    stood when this was found out. unix_s: when. detail: what is wrong with it, when damaged.
    """

    repo: str
    name: str
    commit: str
    path: str
    sha256: str
    mark: Mark
    how: How
    unix_s: float
    source: str
    detail: str = ""


_COLUMNS = (
    "repo",
    "name",
    "commit_id",
    "path",
    "sha256",
    *(f.name for f in fields(Mark)),
    "how",
    "unix_s",
    "source",
    "detail",
)
_TYPES = {"size_bytes": "INTEGER", "mtime_ns": "INTEGER", "ctime_ns": "INTEGER", "unix_s": "REAL"}
_SCHEMA = (
    "CREATE TABLE IF NOT EXISTS file ("
    + ", ".join(f"{c} {_TYPES.get(c, 'TEXT')} NOT NULL" for c in _COLUMNS)
    + ", PRIMARY KEY (repo, name)) WITHOUT ROWID"
)
# What the beginnings of a proven content hash to; keyed by the content, wherever a copy of it lies.
_PREFIX_SCHEMA = (
    "CREATE TABLE IF NOT EXISTS prefix "
    "(name TEXT NOT NULL PRIMARY KEY, step_bytes INTEGER NOT NULL, digests BLOB NOT NULL) WITHOUT ROWID"
)
_DIGEST_BYTES = 32
_SELECT = f"SELECT {', '.join(_COLUMNS)} FROM file"
_UPSERT = f"INSERT OR REPLACE INTO file ({', '.join(_COLUMNS)}) VALUES ({', '.join('?' * len(_COLUMNS))})"


class _Unusable(Exception):
    """The file is not a ledger of ours, or no longer one."""


class Ledger:
    """One SQLite file per node. Safe to use from any thread and from several processes.

    A file that is damaged or of another version is moved aside, never read: then nobody hashed anything here.
    """

    def __init__(self, path: Path, emit: Emit) -> None:
        self.path = path
        self._emit = emit
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        self._settled_s = monotonic_s()
        self._unsettled = False

    def rows(self, repo: str) -> Mapping[str, Row]:
        """Return what is known of a repository's files, by name; nothing where there is no ledger yet."""
        if not exists(self.path):
            return {}
        try:
            found = self._run(lambda db: db.execute(f"{_SELECT} WHERE repo = ?", (repo,)).fetchall())
        except KbootError as exc:
            self._emit(Notice("ledger.unreadable", f"{exc.message}; every file counts as never hashed"))
            return {}
        return {row.name: row for row in map(_row, found)}

    def row(self, repo: str, name: str) -> Row | None:
        """Return what is known of one file."""
        if not exists(self.path):
            return None
        query = f"{_SELECT} WHERE repo = ? AND name = ?"
        try:
            found = self._run(lambda db: db.execute(query, (repo, name)).fetchone())
        except KbootError as exc:
            self._emit(Notice("ledger.unreadable", f"{exc.message}; {name[:12]} counts as never hashed"))
            return None
        return _row(found) if found else None

    def record(self, rows: Iterable[Row], *, durable: bool = True) -> None:
        """Write rows over what was known of these files; durable on return.

        Not durable, they outlive the process at once and a power cut within seconds or after settle(): for what can be
        found out again. Waiting for the disk after each shard would leave a core idle.
        """
        values = [_values(row) for row in rows]
        self._write(lambda db: db.executemany(_UPSERT, values), durable=durable)

    def settle(self) -> None:
        """Make durable what was written; a disk that refuses is told of, since nothing is lost before a power cut."""
        if self._unsettled:
            try:
                self._write(lambda db: db.execute(f"PRAGMA user_version = {_VERSION}"), durable=True)
            except KbootError as exc:
                self._emit(Notice("ledger.not_settled", f"a power cut now would lose what was just proven: {exc}"))

    def forget(self, repo: str, name: str) -> None:
        """Forget one file; durable on return."""
        self._write(lambda db: db.execute("DELETE FROM file WHERE repo = ? AND name = ?", (repo, name)), durable=True)

    def prefixes(self, name: str) -> Prefixes:
        """Return what is known of the beginnings of a content; nothing where the ledger cannot be read."""
        if not exists(self.path):
            return NO_PREFIXES
        try:
            found = self._run(lambda db: _select_prefixes(db, name))
        except KbootError:
            return NO_PREFIXES
        if found is None or found[0] != RANGE_BYTES:
            return NO_PREFIXES
        digests = (found[1][at : at + _DIGEST_BYTES] for at in range(0, len(found[1]), _DIGEST_BYTES))
        return Prefixes(found[0], tuple(digests))

    def keep_prefixes(self, name: str, prefixes: Prefixes) -> None:
        """Write down what the beginnings of a content that was just proven hash to."""
        if prefixes.digests:
            values = (name, prefixes.step_bytes, b"".join(prefixes.digests))
            self._write(lambda db: db.execute("INSERT OR REPLACE INTO prefix VALUES (?, ?, ?)", values), durable=False)

    def close(self) -> None:
        """Close the file; the next call opens it again."""
        with self._lock:
            self._close()

    def _close(self) -> None:
        if self._connection is not None:
            connection, self._connection = self._connection, None
            connection.close()

    def _write(self, work: Callable[[sqlite3.Connection], object], *, durable: bool) -> None:
        """Do the work in one transaction; a durable one makes all before it durable, as they are in the same log."""

        def write(db: sqlite3.Connection) -> None:
            settles = durable or monotonic_s() - self._settled_s >= _SETTLE_EVERY_S
            db.execute(f"PRAGMA synchronous = {'FULL' if settles else 'NORMAL'}")
            _in_transaction(db, lambda: work(db))
            self._unsettled = not settles
            if settles:
                self._settled_s = monotonic_s()

        self._run(write)

    def _run(self, work: Callable[[sqlite3.Connection], _T]) -> _T:
        with self._lock:
            try:
                try:
                    return work(self._open())
                except (_Unusable, sqlite3.DatabaseError) as exc:
                    if not _is_unusable(exc):
                        raise
                    self._move_aside(str(exc))
                    return work(self._open())
            except (_Unusable, sqlite3.Error) as exc:
                self._close()
                raise _not_usable(self.path, exc) from exc

    def _open(self) -> sqlite3.Connection:
        if self._connection is None:
            make_dirs(self.path.parent)
            self._connection = _connect(self.path)
        return self._connection

    def _move_aside(self, why: str) -> None:
        self._close()
        aside = self.path.with_name(f"{self.path.name}.aside-{unix_s():.0f}")
        for suffix in ("-wal", "-shm", ""):
            part = self.path.with_name(self.path.name + suffix)
            if part.exists():
                rename(part, aside.with_name(aside.name + suffix))
        self._emit(
            Notice("ledger.moved_aside", f"the ledger was not usable ({why}): moved to {aside}, nothing in it counts")
        )


def stored_rows(path: Path) -> int:
    """Return how many files a ledger at rest names; 0 where it is none that can be read."""
    name = f"{path.absolute().as_uri()}?mode=ro"
    with suppress(_Unusable, sqlite3.Error), closing(_open_checked(name, uri=True)) as db:
        return int(str(_one(db, "SELECT count(*) FROM file")))
    return 0


def forget_files(path: Path, *, wipe: bool) -> None:
    """Forget every file of a ledger, not what beginnings of contents hash to: that is true of every copy. Durable.

    wipe: leave no byte in it of what was known of the files; nobody else may have it open.

    Raises:
        ActionFailed: it cannot be written.
    """
    try:
        with closing(_open_checked(str(path), uri=False)) as db:
            _in_transaction(db, lambda: db.execute("DELETE FROM file"))
            if wipe:
                db.execute("PRAGMA journal_mode = DELETE")
                db.execute("VACUUM")
    except (_Unusable, sqlite3.Error) as exc:
        raise _not_usable(path, exc) from exc


def _not_usable(path: Path, exc: Exception) -> ActionFailed:
    return ActionFailed(
        "ledger-not-usable",
        f"cannot use the ledger: {exc}",
        where=(str(path),),
        hint="it must be a file that the user kboot runs as may write, on a file system with room, locks and shared "
        "memory: where a network file system lacks these, put state_dir of kboot.toml on a local disk",
    )


def _connect(path: Path) -> sqlite3.Connection:
    """Open the ledger; where this user may only read it, read-only."""
    require_own(*(path.with_name(path.name + suffix) for suffix in ("", "-wal", "-shm", "-journal")))
    try:
        return _open_checked(str(path), uri=False)
    except sqlite3.OperationalError as exc:
        if exc.sqlite_errorcode & 0xFF not in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM):
            raise
        # Without write access SQLite cannot make the shared-memory file that a log needs; with no log left behind
        # the file alone is the truth, and `immutable` says so.
        logged = path.with_name(f"{path.name}-wal").exists()
        return _open_checked(f"{path.absolute().as_uri()}?mode=ro" + ("" if logged else "&immutable=1"), uri=True)


def _open_checked(name: str, *, uri: bool) -> sqlite3.Connection:
    db = sqlite3.connect(name, timeout=_BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False, uri=uri)
    try:
        if not uri:
            db.execute("PRAGMA journal_mode = WAL")
            db.execute("PRAGMA synchronous = FULL")
            if not _one(db, "SELECT count(*) FROM sqlite_master"):
                _in_transaction(db, lambda: _create(db))
                with suppress(OSError):  # whatever the umask: who may enter the folder may read what is recorded
                    Path(name).chmod(0o644)
            elif not _has_prefixes(db) and _one(db, "PRAGMA application_id") == _APPLICATION:
                db.execute(_PREFIX_SCHEMA)  # a ledger of an earlier kboot
        _check(db)
    except BaseException:
        db.close()
        raise
    return db


def _create(db: sqlite3.Connection) -> None:
    if not _one(db, "SELECT count(*) FROM sqlite_master"):  # another process may have been first
        db.execute(_SCHEMA)
        db.execute(_PREFIX_SCHEMA)
        db.execute(f"PRAGMA application_id = {_APPLICATION}")
        db.execute(f"PRAGMA user_version = {_VERSION}")


def _has_prefixes(db: sqlite3.Connection) -> bool:
    return _one(db, "SELECT count(*) FROM sqlite_master WHERE name = 'prefix'") == 1


def _select_prefixes(db: sqlite3.Connection, name: str) -> tuple[int, bytes] | None:
    if not _has_prefixes(db):  # opened for reading only
        return None
    found: tuple[int, bytes] | None = db.execute(
        "SELECT step_bytes, digests FROM prefix WHERE name = ?", (name,)
    ).fetchone()
    return found


def _check(db: sqlite3.Connection) -> None:
    application, version = _one(db, "PRAGMA application_id"), _one(db, "PRAGMA user_version")
    if (application, version) != (_APPLICATION, _VERSION):
        raise _Unusable(f"application {application} version {version}, wanted {_APPLICATION} version {_VERSION}")
    if (verdict := _one(db, "PRAGMA quick_check(1)")) != "ok":
        raise _Unusable(str(verdict))


def _one(db: sqlite3.Connection, query: str) -> object:
    return db.execute(query).fetchone()[0]


def _in_transaction(db: sqlite3.Connection, work: Callable[[], object]) -> None:
    db.execute("BEGIN IMMEDIATE")
    try:
        work()
    except BaseException:
        db.execute("ROLLBACK")
        raise
    db.execute("COMMIT")


def _is_unusable(exc: Exception) -> bool:
    """Tell a file that is no ledger from a busy, full or forbidden disk, which moving it aside would not mend."""
    broken = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR)
    return isinstance(exc, _Unusable) or getattr(exc, "sqlite_errorcode", 0) & 0xFF in broken


def _values(row: Row) -> tuple[object, ...]:
    return (
        row.repo,
        row.name,
        row.commit,
        row.path,
        row.sha256,
        *astuple(row.mark),
        row.how,
        row.unix_s,
        row.source,
        row.detail,
    )


def _row(values: tuple[str, ...]) -> Row:
    repo, name, commit, path, sha256, *rest = values
    mark, (how, when, source, detail) = Mark(*rest[:6]), rest[6:]  # type: ignore[arg-type]
    if how not in get_args(How):  # written by nobody we know: counts as never hashed
        how, detail = "quick", ""
    return Row(repo, name, commit, path, sha256, mark, cast(How, how), float(when), source, detail)
