"""How are bytes asked for over HTTP and received without a copy too many?"""

from __future__ import annotations

import http.client
import math
import socket
import ssl
import struct
import threading
from collections.abc import Mapping
from types import TracebackType
from typing import Self

from kboot import __version__
from kboot.errors import SourceError
from kboot.host.clock import monotonic_s
from kboot.sources.dial import Resolve, dial, resolve
from kboot.sources.failures import at_proxy
from kboot.sources.framing import Frame
from kboot.sources.proxies import Origin, origin_of, proxy_for
from kboot.sources.tls import tls_context
from kboot.sources.tls_stream import TlsStream
from kboot.sources.wire import Wire, cut_short, explain

_TICK_S = 1.0  # the longest a receive waits for a buffer to fill when bytes trickle
_SMALL_BYTES = 64 << 10


class Client:
    """Connections to whatever URLs name, kept open and used again. For any thread.

    connect_timeout_s: per address. stall_timeout_s: the longest wait for the head of an answer, and for a byte after.
    """

    def __init__(
        self, env: Mapping[str, str], connect_timeout_s: float, stall_timeout_s: float, ask: Resolve = resolve
    ) -> None:
        self._env = env
        self._connect_timeout_s = connect_timeout_s
        self._stall_timeout_s = stall_timeout_s
        self._ask = ask
        self._tls = threading.Lock()
        self._context: ssl.SSLContext | None = None
        self._lock = threading.Lock()  # of the next two
        self._live: set[Wire] = set()
        self._idle: dict[Origin, list[Wire]] = {}
        self._interrupted = threading.Event()

    def get(self, url: str, headers: Mapping[str, str], until_s: float = math.inf) -> Answer:
        """Send one GET and return its answer, headers read, body not. Redirects are not followed.

        until_s: on the monotonic clock, when a connected server's time for all of the answer is over.

        Raises:
            SourceError: no connection, no HTTP, silence.
        """
        origin = origin_of(url)
        wire = self._take(origin)
        if wire is not None:
            try:
                return self._send(wire, url, headers, until_s)
            except SourceError as exc:
                if exc.code != "connection-cut" or self._interrupted.is_set():
                    raise
                # The server closed a kept connection between two requests: not a failed try.
        return self._send(self._connect(origin, until_s), url, headers, until_s)

    def interrupt(self) -> None:
        """Cut every connection and open no new one, from any thread."""
        with self._lock:
            self._interrupted.set()
            for wire in self._live:
                wire.cut()

    def close(self) -> None:
        """Close the connections that nobody uses now."""
        with self._lock:
            idle = [wire for wires in self._idle.values() for wire in wires]
            self._idle.clear()
        for wire in idle:
            self.drop(wire)

    def keep(self, wire: Wire) -> None:
        """Take back a connection whose answer was read to its end."""
        with self._lock:
            self._idle.setdefault(wire.origin, []).append(wire)

    def drop(self, wire: Wire) -> None:
        """Close a connection."""
        with self._lock:
            self._live.discard(wire)
        wire.close()

    def _take(self, origin: Origin) -> Wire | None:
        with self._lock:
            wires = self._idle.get(origin)
            return wires.pop() if wires else None

    def _connect(self, origin: Origin, until_s: float) -> Wire:
        proxy = proxy_for(origin, self._env)
        near = proxy.origin if proxy else origin
        try:
            sock = dial(near.host, near.port, self._connect_timeout_s, self._ask, self._interrupted)
        except SourceError as exc:
            if proxy is None or exc.code == "interrupted":
                raise
            raise at_proxy(exc, origin.address) from exc
        wire = Wire(origin, proxy, sock, self._stall_timeout_s, until_s)
        with self._lock:
            self._live.add(wire)
            if self._interrupted.is_set():
                wire.cut()
        if origin.scheme == "https":
            try:
                wire.secure(self._tls_context())
            except BaseException as exc:
                self.drop(wire)
                if isinstance(exc, (OSError, http.client.HTTPException, ValueError)):
                    raise wire.broken(exc) from exc
                raise
        return wire

    def _send(self, wire: Wire, url: str, headers: Mapping[str, str], until_s: float) -> Answer:
        try:
            wire.until_s = until_s
            response = wire.ask(url, {"User-Agent": f"kboot/{__version__}", **headers})
        except BaseException as exc:
            self.drop(wire)
            if isinstance(exc, (OSError, http.client.HTTPException, ValueError)):
                raise wire.broken(exc) from exc
            raise
        return Answer(self, wire, url, response)

    def _tls_context(self) -> ssl.SSLContext:
        with self._tls:
            if self._context is None:
                self._context = tls_context(self._env)
            return self._context


class Answer:
    """One answer; exactly one of text(), whole(), body() and drop() is to be called. headers: names in lower case."""

    def __init__(self, client: Client, wire: Wire, url: str, response: http.client.HTTPResponse) -> None:
        self.url = url
        self.status = response.status
        self.headers = {name.lower(): value for name, value in response.headers.items()}
        self._client = client
        self._wire = wire
        self._response = response

    def text(self) -> str:
        """Return the beginning of a short body, for messages; nothing when it cannot be read."""
        self._wire.spoken.whole_within(self._wire.allowed_s)
        try:
            data = self._read(_SMALL_BYTES)
        except (OSError, http.client.HTTPException, ValueError):
            data = b""
        self._keep_or_drop()
        return data.decode("utf-8", "replace")

    def whole(self, limit_bytes: int) -> bytes | None:
        """Return the whole body, as it is sent; None where it has more bytes.

        Raises:
            SourceError: silence, an end before the announced one, a broken connection.
        """
        wire = self._wire
        wire.spoken.whole_within(wire.until_s - monotonic_s(), wire.stall_timeout_s)
        try:
            data = self._read(limit_bytes + 1)
            if len(data) <= limit_bytes and self._response.length:
                raise http.client.IncompleteRead(data)
        except (OSError, http.client.HTTPException, ValueError) as exc:
            self.drop()
            raise wire.broken(exc) from exc
        self._keep_or_drop()
        return data if len(data) <= limit_bytes else None

    def _read(self, most_bytes: int) -> bytes:
        """Return the body as far as so many bytes. http.client's read() believes a chunk of -1 bytes: all there is."""
        data, piece = bytearray(), memoryview(bytearray(min(most_bytes, _SMALL_BYTES)))
        while n := self._response.readinto(piece[: most_bytes - len(data)]):
            data += piece[:n]
        return bytes(data)

    def every(self, name: str) -> str:
        """Return all values of a header that may come several times, as one list."""
        return ", ".join(self._response.headers.get_all(name, []))

    def body(self, frame: Frame) -> HttpBody:
        """Return the body, framed as its headers were found to say."""
        try:
            return HttpBody(self._client, self._wire, self._response, frame)
        except SourceError:
            self.drop()
            raise

    def drop(self) -> None:
        """Leave the body unread."""
        self._response.close()
        self._client.drop(self._wire)

    def _keep_or_drop(self) -> None:
        self._wire.spoken.whole_within(None)
        if self._response.isclosed() and not self._response.will_close and not self._wire.was_cut:
            self._client.keep(self._wire)
        else:
            self.drop()


class HttpBody:
    """The body of one answer, received straight into the caller's buffer."""

    def __init__(self, client: Client, wire: Wire, response: http.client.HTTPResponse, frame: Frame) -> None:
        self.start = frame.start
        self.total_bytes = frame.total_bytes
        self._client = client
        self._wire = wire
        self._response = response
        self._left_bytes = frame.size_bytes
        self._got_bytes = 0
        self._ended = frame.size_bytes == 0
        # http.client undoes chunks and finds the end where no length is given; a plain body needs neither.
        self._direct = frame.size_bytes is not None and not response.chunked
        self._ahead = self._take_over() if self._direct else b""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None) -> None:
        may_keep = self._ended and not self._response.will_close and not self._wire.was_cut
        self._response.close()
        if may_keep:
            self._client.keep(self._wire)
        else:
            self._client.drop(self._wire)

    def readinto(self, buffer: memoryview) -> int:
        """See Body. Fills the buffer as far as about a second gives."""
        if self._ended:
            return 0
        try:
            n = self._receive(buffer) if self._direct else self._response.readinto(buffer)
        except (OSError, http.client.HTTPException, ValueError) as exc:
            raise self._wire.broken(exc) from exc
        if self._wire.was_cut:
            raise cut_short()
        self._count(n)
        return n

    def _count(self, n: int) -> None:
        self._got_bytes += n
        if self._left_bytes is None:
            self._ended = n == 0
            return
        if n == 0 and self._left_bytes:
            raise SourceError(
                "short-body",
                f"{self._wire.origin.address} ended the body at byte {self.start + self._got_bytes}, "
                f"{self._left_bytes} bytes early",
                retry=True,
            )
        self._left_bytes -= n
        self._ended = self._left_bytes == 0

    def _take_over(self) -> bytes:
        """Take what http.client has read ahead and prepare the socket; from here on it is read directly."""
        sock = self._wire.sock
        sock.setblocking(False)
        try:
            ahead = self._response.fp.read(len(self._response.fp.peek()))
        except BlockingIOError:
            ahead = b""
        except OSError as exc:
            raise explain(exc, self._wire.origin) from exc
        tick_s = min(_TICK_S, self._wire.stall_timeout_s)
        if isinstance(sock, TlsStream):
            sock.settimeout(tick_s)
        else:
            # The kernel fills the whole buffer in one call, and gives what it has when the tick is over.
            sock.setblocking(True)
            timeval = struct.pack("@ll", int(tick_s), max(1000, int(tick_s % 1 * 1e6)))
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, timeval)
        return ahead

    def _receive(self, buffer: memoryview) -> int:
        wanted = len(buffer) if self._left_bytes is None else min(len(buffer), self._left_bytes)
        if self._ahead:
            n = min(wanted, len(self._ahead))
            buffer[:n] = self._ahead[:n]
            self._ahead = self._ahead[n:]
            return n
        sock = self._wire.sock
        deadline = monotonic_s() + self._wire.stall_timeout_s
        while True:
            try:
                if isinstance(sock, TlsStream):
                    return sock.fill(buffer[:wanted], _TICK_S)
                return sock.recv_into(buffer, wanted, socket.MSG_WAITALL)
            except (BlockingIOError, TimeoutError):
                if self._wire.was_cut or monotonic_s() >= deadline:
                    raise
