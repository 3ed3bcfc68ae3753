"""How far may the answers to one listing lead: to which origins, for how long, with how many bytes?"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from kboot.errors import SourceError
from kboot.host.clock import monotonic_s
from kboot.sources.proxies import Origin, origin_of
from kboot.sources.secrets import without_query
from kboot.sources.stopping import stopped

LISTING_S = 300.0
"""For all pages of one listing; the largest repositories of the Hub take seconds."""
LISTING_BYTES = 64 << 20
"""Of all pages as they come; 100,000 files with hashes take 25 MiB."""
_PACKED = 64  # an answer that is compressed all the same may be so many times smaller than what it unpacks to

_T = TypeVar("_T")


class Bounds:
    """What the requests of one listing have in common. Only the endpoint itself ever sees the token."""

    def __init__(self, endpoint: str, stop: threading.Event, seconds: float, size_bytes: int) -> None:
        self._endpoint: Origin = origin_of(endpoint)
        self._stop = stop
        self._until_s = monotonic_s() + seconds
        self._seconds = seconds
        self._limit_bytes = size_bytes
        self._left_bytes = size_bytes
        self._answered: set[str] = set()
        self._from = self._endpoint  # who answered last
        self._redirected = False

    def check_time(self) -> None:
        """Return while the listing may go on.

        Raises:
            SourceError: "interrupted", "source-silent".
        """
        if self._stop.is_set():
            raise stopped()
        if monotonic_s() >= self._until_s:
            raise self.too_long()

    def too_long(self) -> SourceError:
        """Return the error of a listing that does not end."""
        return SourceError(
            "source-silent", f"{self._endpoint.address} did not end its listing in {self._seconds:.0f} s"
        )

    def before(self, request: Any) -> None:
        """Judge a request before it is sent, and take the token out of one that goes elsewhere.

        Raises:
            SourceError: "listing-not-valid", "redirect-not-valid"; the listing's time is over.
        """
        self.check_time()
        url = str(request.url)
        origin = origin_of(url)
        if self._endpoint.scheme == "https" and origin.scheme != "https":
            raise SourceError("redirect-not-valid", f"{self._from.address} leads to {without_query(url)!r}")
        if url in self._answered:
            raise self._invalid(f"names a page twice: {without_query(url)!r}")
        if origin not in (self._endpoint, self._from) and not self._redirected:
            raise self._invalid(f"names {without_query(url)!r} as its next page, which is another server's")
        if origin != self._endpoint and "authorization" in request.headers:
            del request.headers["authorization"]
        request.headers["accept-encoding"] = "identity"

    def after(self, response: Any, stream_class: type) -> None:
        """Note who answered, and let the body be read only as far as the bounds allow. stream_class: of the client."""
        self._from = origin_of(str(response.url))
        self._redirected = response.has_redirect_location
        if not self._redirected:
            self._answered.add(str(response.url))
        packed = response.headers.get("content-encoding", "identity").strip().lower() != "identity"
        response.stream = _bounded(response.stream, stream_class, self._count, _PACKED if packed else 1)

    def _count(self, size_bytes: int) -> None:
        self.check_time()
        self._left_bytes -= size_bytes
        if self._left_bytes < 0:
            raise self._invalid(f"is larger than {self._limit_bytes} bytes")

    def _invalid(self, what: str) -> SourceError:
        return SourceError("listing-not-valid", f"the listing of {self._endpoint.address} {what}")


def _bounded(inner: Any, stream_class: type, count: Callable[[int], None], weight: int) -> Any:
    def chunks(_self: object) -> Iterator[bytes]:
        for chunk in inner:
            count(len(chunk) * weight)
            yield chunk

    def close(_self: object) -> None:
        inner.close()

    return type("Bounded", (stream_class,), {"__iter__": chunks, "close": close})()


def answer_or_leave(ask: Callable[[], _T], stop: threading.Event, seconds: float, late: SourceError) -> _T:
    """Return what `ask` returns, from a thread of its own: resolver and TLS of others' libraries cannot be interrupted.

    Raises:
        SourceError: "interrupted" soon after `stop` is set; `late` when the time is over. The thread is left to end.
    """
    done, answers, errors = threading.Event(), list[_T](), list[Exception]()

    def work() -> None:
        try:
            answers.append(ask())
        except Exception as exc:  # noqa: BLE001 - raised again in the thread that waits
            errors.append(exc)
        finally:
            done.set()

    threading.Thread(target=work, name="listing", daemon=True).start()
    until_s = monotonic_s() + seconds
    while not done.wait(0.1):
        if stop.is_set():
            raise stopped()
        if monotonic_s() >= until_s:
            raise late
    if errors:
        raise errors[0]
    return answers[0]
