"""How is an archive received from a plain HTTP server, as a stream, with no listing that says what it is?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType

from kboot.errors import SourceError
from kboot.sources.asking import follow
from kboot.sources.framing import Frame, header_number
from kboot.sources.http import Answer, Client, HttpBody
from kboot.sources.proxies import origin_of
from kboot.sources.secrets import mask, without_query

_BUFFER_BYTES = 1 << 20
_CONNECT_S = 5.0
_STALL_S = 30.0
_AS_IT_IS = frozenset({"", "identity", "zstd", "zst"})  # archives are zstd: some servers call by it what they have so


class Download:
    """A body being received. size_bytes: as the server says; None when it does not."""

    def __init__(self, body: HttpBody, size_bytes: int | None) -> None:
        self.size_bytes = size_bytes
        self._body = body
        self._buffer = memoryview(bytearray(_BUFFER_BYTES))

    def read(self, size: int, /) -> bytes:
        """Return up to `size` bytes, none at the end.

        Raises:
            SourceError: the connection broke, fell silent, or ended before the size the server had said.
        """
        return bytes(self._buffer[: self._body.readinto(self._buffer[: max(1, size)])])


@contextmanager
def download(
    url: str, env: Mapping[str, str] = MappingProxyType({}), connect_timeout_s: float = _CONNECT_S,
    stall_timeout_s: float = _STALL_S,
) -> Iterator[Download]:  # fmt: skip
    """Ask for a URL and yield its body; redirects are followed, but never from https to http.

    env: proxies and certificates are read from here.

    Raises:
        SourceError: no connection, a refusal, a redirect that leads nowhere.
    """
    client = Client(env, connect_timeout_s, stall_timeout_s)
    try:
        answer = _ask(client, url)
        size_bytes = _length(answer)
        with answer.body(Frame(0, size_bytes, size_bytes)) as body:
            yield Download(body, size_bytes)
    finally:
        client.close()


def _ask(client: Client, url: str) -> Answer:
    answer = follow(client, url, 0, None)
    if answer.status == 200:
        return answer
    answer.drop()
    hint = "a signed link may have expired, or not be meant for this object" if answer.status == 403 else None
    raise SourceError(
        "download-refused",
        f"{origin_of(answer.url).address} answers {answer.status} for {without_query(answer.url)}",
        hint=hint,
        retry=answer.status >= 500 or answer.status == 429,
    )


def _length(answer: Answer) -> int | None:
    encoding = answer.headers.get("content-encoding", "identity").strip().lower()
    if encoding not in _AS_IT_IS:
        answer.drop()
        raise SourceError("transformed-body", f"the body comes as {mask(encoding[:40])}, wanted as it is")
    return header_number(answer.headers.get("content-length", ""))
