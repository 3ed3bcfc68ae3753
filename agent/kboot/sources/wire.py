"""How does one connection carry questions and the heads of answers, straight or through a proxy?"""

from __future__ import annotations

import http.client
import socket
import ssl
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from kboot.errors import SourceError
from kboot.host.clock import monotonic_s
from kboot.sources.failures import explain_network
from kboot.sources.proxies import Origin, Proxy
from kboot.sources.refusals import refused_by_proxy
from kboot.sources.secrets import mask
from kboot.sources.spoken import Spoken
from kboot.sources.tls_stream import TlsStream


class Wire:
    """One connection, straight or through a proxy.

    stall_timeout_s: the longest silence. until_s: on the monotonic clock, when the time for all of an answer is over.
    """

    def __init__(
        self, origin: Origin, proxy: Proxy | None, sock: socket.socket, stall_timeout_s: float, until_s: float
    ) -> None:
        self.origin = origin
        self.sock: socket.socket | TlsStream = sock
        self.stall_timeout_s = stall_timeout_s
        self.until_s = until_s
        self.was_cut = False
        self._bare = sock
        self._proxy = proxy
        # Typed as in typeshed it would take a socket only; it calls no more than Spoken has.
        self._connection: Any = http.client.HTTPConnection(origin.host, origin.port)
        self._connection.default_port = 443 if origin.scheme == "https" else 80  # signed links sign the Host header
        self._connection.auto_open = 0
        self._speak()
        sock.settimeout(self.allowed_s)

    @property
    def allowed_s(self) -> float:
        """How long the next step may take."""
        return max(0.0, min(self.stall_timeout_s, self.until_s - monotonic_s()))

    def secure(self, context: ssl.SSLContext) -> None:
        """Make it TLS, after asking a proxy for a tunnel."""
        if self._proxy is not None:
            try:
                self._tunnel(self._proxy)
            except (OSError, http.client.HTTPException) as exc:
                raise self.broken(exc, self._proxy.origin) from exc
            self._bare.settimeout(self.allowed_s)
        self.sock = TlsStream(self._bare, context, self.origin.host)
        self._speak()

    def _speak(self) -> None:
        self._connection.sock = self.spoken = Spoken(self.sock)

    def ask(self, url: str, headers: Mapping[str, str]) -> http.client.HTTPResponse:
        """Send a GET and read the head of the answer."""
        self.sock.settimeout(self.allowed_s)
        parts = urlsplit(url)
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        if self._proxy is not None and self.origin.scheme == "http":
            target = f"http://{parts.netloc.rsplit('@', 1)[-1]}{target}"
            headers = {**headers, **self._proxy.headers}
        self._connection.request("GET", target, headers=dict(headers))
        self.spoken.whole_within(self.allowed_s)
        response: http.client.HTTPResponse = self._connection.getresponse()
        self.spoken.whole_within(None)
        self.sock.settimeout(self.stall_timeout_s)
        return response

    def cut(self) -> None:
        """Wake whoever waits on it."""
        self.was_cut = True
        try:
            self._bare.shutdown(socket.SHUT_RDWR)
        except OSError:
            return  # gone already

    def broken(self, exc: Exception, whom: Origin | None = None) -> SourceError:
        """Return our error for what it raised. whom: who did not do as wanted; None = whom it leads to."""
        return cut_short() if self.was_cut else explain(exc, whom or self.origin)

    def close(self) -> None:
        """Close it."""
        self._connection.close()
        self.sock.close()

    def _tunnel(self, proxy: Proxy) -> None:
        connection = http.client.HTTPConnection(proxy.origin.host, proxy.origin.port)
        connection.sock = self._bare
        connection.putrequest("CONNECT", self.origin.address, skip_host=True, skip_accept_encoding=True)
        connection.putheader("Host", self.origin.address)
        for name, value in proxy.headers.items():
            connection.putheader(name, value)
        connection.endheaders()
        self.spoken.whole_within(self.allowed_s)
        response = http.client.HTTPResponse(self._connection.sock, method="CONNECT")
        response.begin()
        self.spoken.whole_within(None)
        response.close()
        if response.status != 200:
            raise refused_by_proxy(response.status, f"the proxy {proxy.origin.address}", self.origin.address)


def cut_short() -> SourceError:
    """Return the error of a connection that kboot itself has cut."""
    return SourceError("interrupted", "the transfer was told to stop", retry=False)


def explain(exc: Exception, origin: Origin) -> SourceError:
    """Return our error for whatever a connection raised."""
    host = origin.address
    if isinstance(exc, SourceError):
        return exc
    if isinstance(exc, http.client.IncompleteRead):
        return SourceError("short-body", f"{host} ended the body early", retry=True)
    if known := explain_network(exc, host):
        return known
    if isinstance(exc, (http.client.HTTPException, ValueError)):
        said = mask(str(exc)[:200]) or type(exc).__name__
        return SourceError("not-http", f"{host} does not answer as HTTP should: {said}", retry=True)
    return SourceError("connection-cut", f"the connection to {host} broke: {exc}", retry=True)
