"""How is one HTTP question asked to its end: redirects followed, a small answer read whole?"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable
from string import punctuation
from urllib.parse import quote, urljoin

from kboot.checkpoint import RemoteFile
from kboot.errors import SourceError
from kboot.host.clock import monotonic_s
from kboot.sources.framing import range_header
from kboot.sources.http import Answer, Client
from kboot.sources.proxies import Origin, origin_of
from kboot.sources.secrets import mask, without_query
from kboot.sources.types import Body

_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_HOPS = 6
_FIRST_S = 60.0  # for a small file as far as it depends on no rate
_SLOWEST_BYTES_S = 64 << 10


def no_token(_: Origin) -> str:
    """Give nobody a token."""
    return ""


def follow(
    client: Client,
    url: str,
    start: int,
    end: int | None,
    token_for: Callable[[Origin], str] = no_token,
    until_s: float = math.inf,
) -> Answer:
    """Ask for bytes [start, end), and go where redirects lead, but never from https to http.

    token_for: the token that a host may see; empty for none. until_s: see Client.get.

    Raises:
        SourceError: no connection, no HTTP, silence; "redirect-not-valid".
    """
    first = origin_of(url)
    for _ in range(_HOPS):
        origin = origin_of(url)
        headers = range_header(start, end)
        if token := token_for(origin):
            headers["Authorization"] = f"Bearer {token}"
        answer = client.get(url, headers, until_s)
        if answer.status not in _REDIRECTS:
            return answer
        location = answer.headers.get("location", "")
        answer.text()
        if not location or (led := joined(url, location)) is None:
            raise SourceError("redirect-not-valid", f"{origin.address} redirects to {mask(location[:200])!r}")
        url = led
        if origin.scheme == "https" and origin_of(url).scheme == "http":
            raise SourceError("redirect-not-valid", f"{origin.address} redirects to {without_query(url)!r}")
    raise SourceError("redirect-not-valid", f"{first.address} redirects more than {_HOPS} times")


def joined(url: str, location: str) -> str | None:
    """Return where a redirect or link leads; None where that is no http or https URL.

    What stands there as it is and no URL has, blanks and other letters than ASCII's, is quoted as browsers quote it.
    """
    try:
        led = urljoin(url, quote(location, safe=punctuation, encoding="latin-1"))  # http.client reads headers so
        origin_of(led)
    except (ValueError, SourceError):
        return None
    return led


def read_answer(answer: Answer, limit_bytes: int) -> bytes | None:
    """Return the whole body of a small answer; None where it has more bytes.

    Some servers and proxies send gzip whatever is asked for: it is undone, within the same limit.

    Raises:
        SourceError: silence, a broken connection; "transformed-body": it is packed in another way, or not whole.
    """
    encoding = answer.headers.get("content-encoding", "").strip().lower() or "identity"
    host = origin_of(answer.url).address
    if encoding not in ("identity", "gzip", "x-gzip"):
        answer.drop()
        raise SourceError("transformed-body", f"the answer of {host} comes as {mask(encoding[:40])}, wanted as it is")
    data = answer.whole(limit_bytes)
    if data is None or encoding == "identity":
        return data
    unpack = zlib.decompressobj(zlib.MAX_WBITS | 16)
    try:
        plain = unpack.decompress(data, limit_bytes + 1)
    except zlib.error as exc:
        raise SourceError("transformed-body", f"the answer of {host} says it is gzip: {exc}", retry=True) from exc
    if len(plain) > limit_bytes:
        return None
    if not unpack.eof:
        raise SourceError("transformed-body", f"the gzip in the answer of {host} has no end", retry=True)
    return plain


def check_small(file: RemoteFile, limit_bytes: int) -> None:
    """Return when the file may be read whole.

    Raises:
        SourceError: code "file-too-large".
    """
    if file.size_bytes > limit_bytes:
        raise SourceError(
            "file-too-large", f"{file.path} has {file.size_bytes} bytes, at most {limit_bytes} were expected"
        )


def read_whole(body: Body, file: RemoteFile) -> bytes:
    """Return all bytes of a small file's body.

    Raises:
        SourceError: code "short-body": it has more or fewer than the listing says; see fill.
    """
    data = bytearray(file.size_bytes + 1)  # one more, to notice a body that does not end
    with body:
        done = fill(body, memoryview(data), file.path)
    if done != file.size_bytes:
        raise SourceError(
            "short-body", f"{file.path} came with {done} bytes, the listing says {file.size_bytes}", retry=True
        )
    return bytes(memoryview(data)[:done])


def fill(body: Body, data: memoryview, path: str, clock: Callable[[], float] = monotonic_s) -> int:
    """Receive until there is no room or nothing more comes; return how many bytes. path: of the file, for messages.

    Raises:
        SourceError: code "source-silent": they come in drops, each in time for a connection, all of them never.
    """
    done, until_s = 0, clock() + _FIRST_S + len(data) / _SLOWEST_BYTES_S
    while done < len(data) and (n := body.readinto(data[done:])):
        done += n
        if clock() > until_s:
            said = f"{path} came with {done} of {len(data)} bytes in all the time it was given"
            raise SourceError("source-silent", said, retry=True)
    return done
