"""How does this node give other nodes small documents and parts of files, over one address, within bounds?"""

from __future__ import annotations

import io
import os
import re
import socket
import stat
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kboot.addresses import host_port
from kboot.host.clock import monotonic_s
from kboot.host.os_errors import explain_os_error
from kboot.values import dataclass

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

_TIMEOUT_S = 20.0  # without a byte to a client, and until a request is whole
_STEP_BYTES = 1 << 20
_AT_ONCE = 256
_LONGEST_BODY_BYTES = 64 << 10  # read before anybody is known
_LONGEST_REQUEST_BYTES = 128 << 10  # strangers can fill this times _AT_ONCE
_LENGTH = re.compile(r"[0-9]{1,9}")
_ROOM_S = 5.0  # how long a new client waits for the place of one that was cut for it
_BACKLOG = 128
_IDLE_S = 3600.0  # it is woken to end, and costs nothing while nobody asks


@dataclass(frozen=True, slots=True)
class Asked:
    """One request. headers: names in lower case. client: the address it comes from."""

    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes
    client: str


@dataclass(frozen=True, slots=True)
class Part:
    """Bytes [start, end) of a file. paths: tried in order, since a file may get another name meanwhile."""

    paths: tuple[Path, ...]
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Reply:
    """One answer: a small body, or a part of a file. status: 401 says that it is not known who asks."""

    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    part: Part | None = None


class RangeServer:
    """Answers GET and POST in threads of its own; clients beyond the bound are turned away.

    Strangers go first: when there is no room, the client that has been unknown the longest loses its place.
    One address, never all of them.
    """

    def __init__(
        self,
        address: str,
        port: int,
        answer: Callable[[Asked], Reply],
        pass_by: Callable[[int], None] = lambda _n: None,
        at_once: int = _AT_ONCE,
        whole_within_s: float = _TIMEOUT_S,
    ) -> None:
        """Listen.

        answer: called from several threads. pass_by: called before so many bytes of a file are sent; may wait.
        port: 0 = any free one. whole_within_s: how long a client has for its next request.

        Raises:
            ActionFailed: the address or port cannot be had.
        """
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        handler = _handler(answer, pass_by, whole_within_s)
        try:
            self._server = _Server((address, port), handler, family, at_once)
        except OSError as exc:
            raise explain_os_error(exc, "listen for the other nodes", host_port(address, port)) from exc
        self.address, self.port = address, int(self._server.server_address[1])
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": _IDLE_S}, name="peers", daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        """Stop answering; answers that are being sent are cut."""
        with suppress(OSError):
            self._server.socket.shutdown(socket.SHUT_RDWR)  # wakes the thread, which sleeps until somebody comes
        self._server.shutdown()
        self._server.cut()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = _BACKLOG

    def __init__(
        self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler], family: int, at_once: int
    ) -> None:
        self.address_family = family
        self._room = threading.BoundedSemaphore(at_once)
        self._lock = threading.Lock()
        self._live: dict[socket.socket, bool] = {}  # in the order in which they came; whether they are known
        super().__init__(address, handler)

    def server_bind(self) -> None:
        """Bind without asking a resolver for the address's name, as HTTPServer would."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])

    def process_request(self, request: socket.socket | tuple[bytes, socket.socket], client_address: Any) -> None:
        assert isinstance(request, socket.socket), "a stream server"
        if not self._has_room():
            self.shutdown_request(request)
            return
        with self._lock:
            self._live[request] = False
        try:
            super().process_request(request, client_address)
        except BaseException:  # no thread could be started
            self._leaves(request)
            raise

    def process_request_thread(self, request: socket.socket | tuple[bytes, socket.socket], client_address: Any) -> None:
        assert isinstance(request, socket.socket), "a stream server"
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._leaves(request)

    def known(self, request: socket.socket) -> None:
        """Take in that it is known who is at the other end."""
        with self._lock:
            if request in self._live:
                self._live[request] = True

    def cut(self) -> None:
        """Wake every thread that waits for its client."""
        with self._lock:
            for sock in self._live:
                _cut(sock)

    def _has_room(self) -> bool:
        if self._room.acquire(blocking=False):
            return True
        with self._lock:
            stranger = next((sock for sock, known in self._live.items() if not known), None)
            if stranger is None:
                return False
            _cut(stranger)
        return self._room.acquire(timeout=_ROOM_S)

    def _leaves(self, request: socket.socket) -> None:
        with self._lock:
            self._live.pop(request, None)
        self._room.release()

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing: a client that went away is no event."""


def _cut(sock: socket.socket) -> None:
    with suppress(OSError):
        sock.shutdown(socket.SHUT_RDWR)


class _Incoming(io.RawIOBase):
    """What a client sends, of which a request has so many bytes and so much time, however slowly they come."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._until_s, self._left_bytes = 0.0, 0

    def begin(self, whole_within_s: float) -> None:
        """Begin to wait for the next request."""
        self._until_s, self._left_bytes = monotonic_s() + whole_within_s, _LONGEST_REQUEST_BYTES

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        left_s = self._until_s - monotonic_s()
        if left_s <= 0 or not self._left_bytes:
            raise TimeoutError
        self._sock.settimeout(left_s)
        n = self._sock.recv_into(memoryview(buffer)[: self._left_bytes])
        self._left_bytes -= n
        return n


def _handler(
    answer: Callable[[Asked], Reply], pass_by: Callable[[int], None], whole_within_s: float
) -> type[BaseHTTPRequestHandler]:
    class Handler(_Handler):
        pass

    Handler.answer_to, Handler.pass_by = staticmethod(answer), staticmethod(pass_by)
    Handler.whole_within_s = whole_within_s
    return Handler


class _Handler(BaseHTTPRequestHandler):
    timeout = _TIMEOUT_S
    protocol_version = "HTTP/1.1"
    server_version = "kboot"
    sys_version = ""
    wbufsize = -1
    disable_nagle_algorithm = True
    answer_to: Callable[[Asked], Reply]
    pass_by: Callable[[int], None]
    whole_within_s: float
    server: _Server

    def setup(self) -> None:
        """Begin with a client."""
        super().setup()
        self.rfile.close()
        self._incoming = _Incoming(self.connection)
        self.rfile = io.BufferedReader(self._incoming)

    def handle_one_request(self) -> None:
        """Wait for a request, and answer it."""
        self._incoming.begin(self.whole_within_s)
        super().handle_one_request()

    def do_GET(self) -> None:
        self._do()

    def do_POST(self) -> None:
        self._do()

    def log_message(self, *_: object) -> None:
        """Keep every request out of the log."""

    def _do(self) -> None:
        length = self.headers.get("Content-Length", "0")
        known = _LENGTH.fullmatch(length) and not self.headers.get("Transfer-Encoding")
        if not known or int(length) > _LONGEST_BODY_BYTES:
            self.close_connection = True
            return self._send(Reply(413))
        body = self.rfile.read(int(length))
        headers = {name.lower(): value for name, value in self.headers.items()}
        reply = self.answer_to(Asked(self.command, self.path, headers, body, str(self.client_address[0])))
        if reply.status != 401:
            self.server.known(self.connection)
        if reply.part is None:
            return self._send(reply)
        return self._send_part(reply, reply.part)

    def _send(self, reply: Reply) -> None:
        self._head(reply, len(reply.body))
        self.wfile.write(reply.body)
        self.wfile.flush()

    def _head(self, reply: Reply, size_bytes: int) -> None:
        self.connection.settimeout(_TIMEOUT_S)
        self.send_response_only(reply.status)
        for name, value in reply.headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(size_bytes))
        self.end_headers()

    def _send_part(self, reply: Reply, part: Part) -> None:
        fd = _open(part)
        if fd < 0:
            self.close_connection = True  # what was promised and proven cannot be given: nothing is said
            return
        with os.fdopen(fd, "rb", buffering=0) as file:
            self._head(reply, part.end - part.start)
            self.wfile.flush()
            at = part.start
            while at < part.end:
                step = min(_STEP_BYTES, part.end - at)
                self.pass_by(step)
                sent = self.connection.sendfile(file, at, step)
                if not sent:
                    self.close_connection = True  # the file became shorter
                    return
                at += sent


def _open(part: Part) -> int:
    """Return a descriptor of the first regular file that has all of the part; -1 where there is none."""
    for path in part.paths:
        try:
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except OSError:
            continue
        found = os.fstat(fd)
        if stat.S_ISREG(found.st_mode) and found.st_size >= part.end:
            return fd
        os.close(fd)
    return -1


def address_to(host: str, port: int) -> str:
    """Return this machine's address on the way to a host; empty where there is no way now. Sends nothing."""
    with suppress(OSError, UnicodeError):
        for family, kind, protocol, _, where in socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM):
            with suppress(OSError), socket.socket(family, kind, protocol) as probe:
                probe.connect(where)
                return str(probe.getsockname()[0])
    return ""
