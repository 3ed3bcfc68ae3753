"""What can be asked of a place that has bytes? Every kind of source answers the same few questions."""

from __future__ import annotations

from dataclasses import field
from types import TracebackType
from typing import Protocol, Self, runtime_checkable

from kboot.checkpoint import RemoteFile
from kboot.errors import SourceError
from kboot.values import dataclass


@dataclass(frozen=True, slots=True)
class Found:
    """A repository at a commit, as a Hub lists it. repo: the id as the Hub spells it. files: all, sorted by path."""

    repo: str
    commit: str
    files: tuple[RemoteFile, ...]


class RateLimited(SourceError):
    """The source answers 429. retry_after_s: when it may be asked again; None when it does not say."""

    def __init__(self, code: str, message: str, *, where: tuple[str, ...] = (), retry_after_s: float | None) -> None:
        super().__init__(code, message, where=where, hint=_RATE_HINT, retry=True)
        self.retry_after_s = retry_after_s


class NotYet(SourceError):
    """The machine itself is not ready: no name resolution, no route, clock not set. Waiting is not a failed try."""


class Body(Protocol):
    """The bytes of one file from `start` on.

    start: where the bytes begin; at or before the one that was asked for (a server may ignore a range).
    total_bytes: size of the whole file as the source tells it; None when it does not.
    """

    start: int
    total_bytes: int | None

    def readinto(self, buffer: memoryview) -> int:
        """Put the next bytes into the buffer and return how many; 0 at the end of what was asked for.

        Raises:
            SourceError: retry=True for short bodies, silence and cut connections.
        """
        ...

    def __enter__(self) -> Self:
        """Return itself."""
        ...

    def __exit__(self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None) -> None:
        """Let go of the connection, whether read to the end or not."""
        ...


class Source(Protocol):
    """A place that has bytes. Methods may be called from any thread; they raise SourceError and nothing else.

    name: how it stands in reports and the ledger; holds no secret.
    trusted: its listing may be taken for hashes. Only the operator's own Hub endpoint is.
    """

    name: str
    trusted: bool

    def list(self, repo: str, revision: str) -> Found:
        """Return the commit behind a revision and its files with sizes and hashes. Waits and retries, bounded."""
        ...

    def read(self, repo: str, commit: str, file: RemoteFile, limit_bytes: int) -> bytes:
        """Return the whole content of a small file. The caller proves it: store.verifier.prove.

        Raises:
            SourceError: code "file-too-large" when it is larger than limit_bytes.
        """
        ...

    def open(self, repo: str, commit: str, file: RemoteFile, start: int, end: int | None = None) -> Body:
        """Ask once for bytes [start, end) of a file (to its end when None) and return them as they come."""
        ...

    def interrupt(self) -> None:
        """End every open body and refuse new ones, from any thread; for a process that was told to stop."""
        ...

    def close(self) -> None:
        """Close idle connections; the source can be used again."""
        ...


@runtime_checkable
class HasLinks(Protocol):
    """A source whose files can be had by anybody who knows a link."""

    name: str

    def direct_link(self, repo: str, commit: str, file: RemoteFile) -> str:
        """Return a URL that gives the file's bytes, with ranges, to whoever asks without a token.

        Raises:
            SourceError: code "link-needs-token" where there is none; or the source refuses.
        """
        ...


@dataclass(frozen=True, slots=True)
class HubAccess:
    """What another client of a Hub needs. token: empty = none."""

    endpoint: str
    token: str = field(default="", repr=False)


@runtime_checkable
class IsHub(Protocol):
    """A source that is a Hub endpoint."""

    name: str

    def access(self) -> HubAccess:
        """Return how this node may ask it."""
        ...


_RATE_HINT = "wait, or give a token (HF_TOKEN): its limits are higher"
