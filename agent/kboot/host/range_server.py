"""How does this node give other nodes small documents and parts of files, over one address, within bounds?"""

from __future__ import annotations

import os
import socket
import stat
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from kboot.host.os_errors import explain_os_error

_TIMEOUT_S = 20.0  # without a byte from or to a client
_STEP_BYTES = 1 << 20
_AT_ONCE = 256
_LONGEST_BODY_BYTES = 64 << 10  # read before anybody is known
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
    """One answer: a small body, or a part of a file."""

    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    part: Part | None = None


class RangeServer:
    """Answers GET and POST in threads of its own; clients beyond the bound are turned away.

    One address, never all of them.
    """

    def __init__(
        self,
        address: str,
        port: int,
        answer: Callable[[Asked], Reply],
        pass_by: Callable[[int], None] = lambda _n: None,
        at_once: int = _AT_ONCE,
    ) -> None:
        """Listen.

        answer: called from several threads. pass_by: called before so many bytes of a file are sent; may wait.
        port: 0 = any free one.

        Raises:
            ActionFailed: the address or port cannot be had.
        """
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        handler = _handler(answer, pass_by)
        try:
            self._server = _Server((address, port), handler, family, at_once)
        except OSError as exc:
            raise explain_os_error(exc, "listen for the other nodes", f"{address}:{port}") from exc
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
        self._live: set[socket.socket] = set()
        super().__init__(address, handler)

    def server_bind(self) -> None:
        """Bind without asking a resolver for the address's name, as HTTPServer would."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])

    def process_request(self, request: socket.socket | tuple[bytes, socket.socket], client_address: Any) -> None:
        if self._room.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: socket.socket | tuple[bytes, socket.socket], client_address: Any) -> None:
        assert isinstance(request, socket.socket), "a stream server"
        with self._lock:
            self._live.add(request)
        try:
            super().process_request_thread(request, client_address)
        finally:
            with self._lock:
                self._live.discard(request)
            self._room.release()

    def cut(self) -> None:
        """Wake every thread that waits for its client."""
        with self._lock:
            for sock in self._live:
                with suppress(OSError):
                    sock.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing: a client that went away is no event."""


def _handler(answer: Callable[[Asked], Reply], pass_by: Callable[[int], None]) -> type[BaseHTTPRequestHandler]:
    class Handler(_Handler):
        pass

    Handler.answer_to, Handler.pass_by = staticmethod(answer), staticmethod(pass_by)
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

    def do_GET(self) -> None:
        self._do()

    def do_POST(self) -> None:
        self._do()

    def log_message(self, *_: object) -> None:
        """Keep every request out of the log."""

    def _do(self) -> None:
        length = self.headers.get("Content-Length", "0")
        if not length.isdigit() or int(length) > _LONGEST_BODY_BYTES or self.headers.get("Transfer-Encoding"):
            self.close_connection = True
            return self._send(Reply(413))
        body = self.rfile.read(int(length))
        headers = {name.lower(): value for name, value in self.headers.items()}
        reply = self.answer_to(Asked(self.command, self.path, headers, body, str(self.client_address[0])))
        if reply.part is None:
            return self._send(reply)
        return self._send_part(reply, reply.part)

    def _send(self, reply: Reply) -> None:
        self._head(reply, len(reply.body))
        self.wfile.write(reply.body)
        self.wfile.flush()

    def _head(self, reply: Reply, size_bytes: int) -> None:
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
