"""How does a folder on this machine, or one that is mounted, deliver the bytes of a checkpoint?"""

from __future__ import annotations

import os
import threading
from types import TracebackType
from typing import Self

from kboot.checkpoint import RemoteFile
from kboot.errors import SourceError
from kboot.host.plain_file import open_plain
from kboot.sources.asking import check_small, read_whole
from kboot.sources.places import places_of
from kboot.sources.types import Found


class Local:
    """A folder: of plain files, a snapshot, one repository's cache folder, or a whole Hugging Face cache.

    It has no hashes that could be believed, so it only delivers bytes.
    """

    trusted = False

    def __init__(self, folder: str) -> None:
        self.name = f"file://{folder}"
        self._folder = folder
        self._stop = threading.Event()

    def list(self, repo: str, revision: str) -> Found:
        """Refuse: a folder cannot vouch for itself."""
        raise SourceError(
            "no-trusted-listing",
            f"{self.name} holds bytes of {repo} at {revision}, but nothing that proves them",
            hint='name "hub" among the sources',
        )

    def read(self, repo: str, commit: str, file: RemoteFile, limit_bytes: int) -> bytes:
        """Return a small file's bytes, unproven. See Source."""
        check_small(file, limit_bytes)
        return read_whole(self.open(repo, commit, file, 0), file)

    def open(self, repo: str, commit: str, file: RemoteFile, start: int, end: int | None = None) -> LocalBody:
        """Open the file where one of the known layouts has it. See Source."""
        where = places_of(repo, commit, file)
        for name in where:
            try:
                fd = open_plain(os.path.join(self._folder, name))
            except (FileNotFoundError, NotADirectoryError):
                continue
            except OSError as exc:
                raise SourceError(
                    "file-not-readable", f"{self.name} has {name}, which cannot be read: {exc.strerror}"
                ) from exc
            return LocalBody(fd, f"{self.name}/{name}", start, file.size_bytes if end is None else end, self._stop)
        raise SourceError("file-not-found", f"{self.name} has no {file.path}", where=where)

    def interrupt(self) -> None:
        """End every open body. See Source."""
        self._stop.set()

    def close(self) -> None:
        """Nothing is kept open between two files."""


class LocalBody:
    """The bytes of one local file. See Body."""

    def __init__(self, fd: int, name: str, start: int, end: int, stop: threading.Event) -> None:
        self.start = start
        self.total_bytes: int | None = os.fstat(fd).st_size
        self._fd = fd
        self._name = name
        self._next = start
        self._end = end
        self._stop = stop

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None) -> None:
        os.close(self._fd)

    def readinto(self, buffer: memoryview) -> int:
        """Fill the buffer; fewer bytes only at the end. See Body."""
        if self._stop.is_set():
            raise SourceError("interrupted", "the transfer was told to stop")
        wanted = min(len(buffer), self._end - self._next)
        done = 0
        try:
            while done < wanted and (n := os.preadv(self._fd, [buffer[done:wanted]], self._next)):
                done += n
                self._next += n
        except OSError as exc:
            raise SourceError("file-not-readable", f"{self._name} cannot be read: {exc.strerror}") from exc
        if done == 0 and wanted:
            raise SourceError("short-body", f"{self._name} ends at byte {self._next}, wanted bytes up to {self._end}")
        return done
