"""How is one object of an S3-compatible store received as a stream, or put there, without a listing?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import unquote, urlsplit

from kboot.errors import SourceError
from kboot.sources.patience import Patience
from kboot.sources.s3 import S3

_TIMEOUTS_S = (5.0, 30.0)


class ObjectStream:
    """The bytes of an object, read once."""

    def __init__(self, chunks: Iterator[memoryview]) -> None:
        self._chunks = chunks
        self._rest = memoryview(b"")

    def read(self, size: int, /) -> bytes:
        """Return up to `size` bytes, none at the end.

        Raises:
            SourceError: whatever the store says.
        """
        if not self._rest:
            self._rest = next(self._chunks, memoryview(b""))
        taken, self._rest = bytes(self._rest[:size]), self._rest[size:]
        return taken


@contextmanager
def open_object(url: str, env: Mapping[str, str]) -> Iterator[ObjectStream]:
    """Yield the object's bytes. env: credentials, region and endpoint are read from here.

    Raises:
        SourceError: there is no such object, or the store refuses or cannot be reached.
    """
    store, key = _open(url, env)
    size_bytes = store.size_of(key)
    if size_bytes is None:
        raise SourceError("file-not-found", f"there is no {url}")
    yield ObjectStream(store.chunks(key, 0, size_bytes) if size_bytes else iter(()))


def put_object(url: str, env: Mapping[str, str], path: Path) -> None:
    """Put a file there; the object is the whole of it, or what it was before.

    Raises:
        SourceError: the store refuses or cannot be reached.
    """
    store, key = _open(url, env)
    store.put(key, path)


def _open(url: str, env: Mapping[str, str]) -> tuple[S3, str]:
    parts = urlsplit(url)
    return S3(parts.netloc, "", env, _TIMEOUTS_S, Patience), unquote(parts.path).strip("/")
