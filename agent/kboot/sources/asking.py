"""How is one HTTP question asked to its end: redirects followed, a small answer read whole?"""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import urljoin

from kboot.checkpoint import RemoteFile
from kboot.errors import SourceError
from kboot.sources.framing import range_header
from kboot.sources.http import Answer, Client
from kboot.sources.proxies import Origin, origin_of
from kboot.sources.secrets import mask, without_query
from kboot.sources.types import Body

_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_HOPS = 6


def no_token(_: Origin) -> str:
    """Give nobody a token."""
    return ""


def follow(
    client: Client, url: str, start: int, end: int | None, token_for: Callable[[Origin], str] = no_token
) -> Answer:
    """Ask for bytes [start, end), and go where redirects lead, but never from https to http.

    token_for: the token that a host may see; empty for none.

    Raises:
        SourceError: no connection, no HTTP, silence; "redirect-not-valid".
    """
    first = origin_of(url)
    for _ in range(_HOPS):
        origin = origin_of(url)
        headers = range_header(start, end)
        if token := token_for(origin):
            headers["Authorization"] = f"Bearer {token}"
        answer = client.get(url, headers)
        if answer.status not in _REDIRECTS:
            return answer
        location = answer.headers.get("location", "")
        answer.text()
        if not location or (led := _joined(url, location)) is None:
            raise SourceError("redirect-not-valid", f"{origin.address} redirects to {mask(location[:200])!r}")
        url = led
        if origin.scheme == "https" and origin_of(url).scheme == "http":
            raise SourceError("redirect-not-valid", f"{origin.address} redirects to {without_query(url)!r}")
    raise SourceError("redirect-not-valid", f"{first.address} redirects more than {_HOPS} times")


def _joined(url: str, location: str) -> str | None:
    """Return where a redirect leads; None where that is no http or https URL."""
    try:
        led = urljoin(url, location)
        origin_of(led)
    except (ValueError, SourceError):
        return None
    return led


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
        SourceError: code "short-body": it has more or fewer than the listing says.
    """
    data = bytearray(file.size_bytes + 1)  # one more, to notice a body that does not end
    view, done = memoryview(data), 0
    with body:
        while done < len(data) and (n := body.readinto(view[done:])):
            done += n
    if done != file.size_bytes:
        raise SourceError(
            "short-body", f"{file.path} came with {done} bytes, the listing says {file.size_bytes}", retry=True
        )
    return bytes(view[:done])
