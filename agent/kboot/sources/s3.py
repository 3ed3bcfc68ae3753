"""How does an S3-compatible object store deliver a checkpoint? Through obstore, which `kboot[s3]` installs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from kboot.checkpoint import RemoteFile
from kboot.errors import SourceError
from kboot.sources.asking import check_small, read_whole
from kboot.sources.patience import Patience
from kboot.sources.places import listing_there, places_of
from kboot.sources.secrets import mask
from kboot.sources.types import Found

_REQUEST_BYTES = 64 << 20  # one request for so much: its time limit is for all of it
_SLOWEST_BYTES_S = 1 << 18
_CHUNK_BYTES = 1 << 20
_SETTINGS = {
    "AWS_ENDPOINT_URL": "endpoint",
    "AWS_ENDPOINT_URL_S3": "endpoint",
    "AWS_DEFAULT_REGION": "region",
    "AWS_REGION": "region",
    "AWS_ACCESS_KEY_ID": "access_key_id",
    "AWS_SECRET_ACCESS_KEY": "secret_access_key",
    "AWS_SESSION_TOKEN": "session_token",
    "AWS_SKIP_SIGNATURE": "skip_signature",
    "AWS_VIRTUAL_HOSTED_STYLE_REQUEST": "virtual_hosted_style_request",
}


class S3:
    """A bucket and prefix that hold plain files, a snapshot, one repository's cache folder, or a whole cache.

    Credentials, region and endpoint come from the environment (AWS_…), without keys from the instance's role.
    """

    trusted = False

    def __init__(
        self,
        bucket: str,
        prefix: str,
        env: Mapping[str, str],
        timeouts_s: tuple[float, float],
        new_patience: Callable[[], Patience],
    ) -> None:
        """Make one; nothing is asked yet.

        timeouts_s: to connect, and without a byte. new_patience: how one listing or small file waits.
        """
        self.name = f"s3://{bucket}/{prefix}".rstrip("/")
        self._bucket = bucket
        self._prefix = prefix.strip("/") + "/" if prefix.strip("/") else ""
        self._env = env
        self._timeouts_s = timeouts_s
        self._new_patience = new_patience
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._store: Any = None
        self._worked = 0  # which of places_of() had the last file

    def list(self, repo: str, revision: str) -> Found:
        """Return what refs/ and trees/ there say. See Source."""
        return self._new_patience().answer(lambda: listing_there(self.name, repo, revision, self._small), self._stop)

    def read(self, repo: str, commit: str, file: RemoteFile, limit_bytes: int) -> bytes:
        """Return a small file's bytes, unproven. See Source."""
        check_small(file, limit_bytes)
        return self._new_patience().answer(lambda: read_whole(self.open(repo, commit, file, 0), file), self._stop)

    def open(self, repo: str, commit: str, file: RemoteFile, start: int, end: int | None = None) -> S3Body:
        """Find the object where the last file was, or where else it may be. See Source."""
        places = places_of(repo, commit, file)
        for number in sorted(range(len(places)), key=lambda n: n != self._worked):
            key = self._prefix + places[number]
            size_bytes = self.size_of(key)
            if size_bytes is None:
                continue
            if size_bytes != file.size_bytes:
                message = f"the file has {size_bytes} bytes there, the listing says {file.size_bytes}"
                raise SourceError("size-mismatch", message, where=(f"{self.name}/{places[number]}",))
            self._worked = number
            return S3Body(self, key, start, size_bytes if end is None else end, size_bytes)
        raise SourceError("file-not-found", f"{self.name} has no {file.path}", where=places)

    def interrupt(self) -> None:
        """End every open body at its next bytes. See Source."""
        self._stop.set()

    def close(self) -> None:
        """Leave connections to obstore, which keeps a few. See Source."""

    def chunks(self, key: str, start: int, end: int) -> Iterator[memoryview]:
        """Yield the bytes [start, end) of an object in pieces.

        Raises:
            SourceError: whatever obstore says.
        """
        store = self._open_store()
        import obstore  # type: ignore[import-not-found,unused-ignore]

        try:
            answer = obstore.get(store, key, options={"range": (start, end)})
            for chunk in answer.stream(min_chunk_size=_CHUNK_BYTES):
                if self._stop.is_set():
                    raise SourceError("interrupted", "the transfer was told to stop")
                yield memoryview(chunk)
        except SourceError:
            raise
        except Exception as exc:
            raise self._explain(exc, key) from exc

    def size_of(self, key: str) -> int | None:
        """Return an object's size; None where there is none.

        Raises:
            SourceError: whatever obstore says.
        """
        if self._stop.is_set():
            raise SourceError("interrupted", "the transfer was told to stop")
        store = self._open_store()
        import obstore

        try:
            return int(obstore.head(store, key)["size"])
        except Exception as exc:
            error = self._explain(exc, key)
            if error.code == "file-not-found":
                return None
            raise error from exc

    def put(self, key: str, path: Path) -> None:
        """Put a file there, in parts where it is large; the object is there when all of it is.

        Raises:
            SourceError: whatever obstore says.
        """
        store = self._open_store()
        import obstore

        try:
            with path.open("rb") as file:
                obstore.put(store, key, file)
        except Exception as exc:
            raise self._explain(exc, key) from exc

    def _small(self, path: str, limit_bytes: int) -> bytes:
        """Return an object that says what there is; empty where there is none."""
        size_bytes = self.size_of(self._prefix + path)
        if not size_bytes or size_bytes > limit_bytes:
            return b""
        return b"".join(bytes(chunk) for chunk in self.chunks(self._prefix + path, 0, size_bytes))

    def _open_store(self) -> Any:
        with self._lock:
            if self._store is None:
                self._store = self._new_store()
            return self._store

    def _new_store(self) -> Any:
        try:
            from obstore.store import S3Store  # type: ignore[import-not-found,unused-ignore]
        except ImportError as exc:
            raise SourceError(
                "s3-not-installed",
                f"{self.name} needs the package obstore, which is not installed",
                hint="pip install 'kboot[s3]'",
            ) from exc
        connect_s, stall_s = self._timeouts_s
        whole_s = max(stall_s, _REQUEST_BYTES / _SLOWEST_BYTES_S)
        config = {ours: self._env[theirs] for theirs, ours in _SETTINGS.items() if self._env.get(theirs)}
        client = {"connect_timeout": f"{connect_s:.0f}s", "timeout": f"{whole_s:.0f}s", "allow_http": True}
        retry = {"max_retries": 2}
        store_class: Any = S3Store  # the names of its settings are strings here
        try:
            return store_class(self._bucket, **config, client_options=client, retry_config=retry)
        except Exception as exc:
            raise SourceError("s3-not-valid", f"{self.name} cannot be opened: {mask(str(exc)[:200])}") from exc

    def _explain(self, exc: Exception, key: str) -> SourceError:
        kind, said = type(exc).__name__, mask(" ".join(str(exc).split())[:300])
        where = (f"s3://{self._bucket}/{key}", said)
        match kind:
            case "SourceError":
                raise exc
            case "NotFoundError" | "FileNotFoundError":
                return SourceError("file-not-found", f"{self.name} has no such object", where=where)
            case "PermissionDeniedError" | "UnauthenticatedError":
                hint = "check AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and the bucket's policy, or the instance's role"
                return SourceError("auth", f"{self.name} refuses: {kind}", where=where, hint=hint)
            case _ if "incorrectly configured region" in said:
                hint = "set AWS_REGION to the bucket's own: `aws s3api get-bucket-location --bucket NAME`"
                return SourceError("s3-not-valid", f"{self.name} is in another region", where=where, hint=hint)
            case _:
                return SourceError("source-failing", f"{self.name} cannot be read", where=where, retry=True)


class S3Body:
    """The bytes of one object. See Body."""

    def __init__(self, source: S3, key: str, start: int, end: int, total_bytes: int) -> None:
        self.start = start
        self.total_bytes: int | None = total_bytes
        self._source = source
        self._key = key
        self._asked = start
        self._next = start
        self._end = end
        self._chunks: Iterator[memoryview] = iter(())
        self._rest = memoryview(b"")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None) -> None:
        self._chunks, self._rest = iter(()), memoryview(b"")

    def readinto(self, buffer: memoryview) -> int:
        """See Body."""
        if self._next == self._end:
            return 0
        while not self._rest:
            self._rest = next(self._chunks, memoryview(b"")) or self._ask()
        n = min(len(buffer), len(self._rest))
        buffer[:n] = self._rest[:n]
        self._rest = self._rest[n:]
        self._next += n
        return n

    def _ask(self) -> memoryview:
        """Ask for the next stretch; return its first bytes."""
        if self._asked > self._next:
            message = f"{self._key} ended at byte {self._next}, asked for bytes up to {self._asked}"
            raise SourceError("short-body", message, retry=True)
        self._asked = min(self._end, self._next + _REQUEST_BYTES)
        self._chunks = self._source.chunks(self._key, self._next, self._asked)
        return next(self._chunks, memoryview(b""))
