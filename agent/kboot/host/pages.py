"""How does a long-running process answer GET on a port of this machine, and of this machine only?"""

from __future__ import annotations

import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socket import socket
from typing import Any

from kboot.host.os_errors import explain_os_error
from kboot.values import dataclass

_TIMEOUT_S = 5.0
_AT_ONCE = 8


@dataclass(frozen=True, slots=True)
class Page:
    """One answer."""

    status: int
    text: str
    content_type: str = "text/plain; charset=utf-8"


Pages = Callable[[str], Page]
"""Gives the page for a path; called from several threads."""


class PageServer:
    """Answers on 127.0.0.1 in threads of its own, a few at once; further clients are turned away."""

    def __init__(self, port: int, pages: Pages) -> None:
        """Listen. port: 0 = any free one.

        Raises:
            ActionFailed: the port cannot be had.
        """
        try:
            self._server = _Server(("127.0.0.1", port), _handler(pages))
        except OSError as exc:
            raise explain_os_error(exc, "listen for metrics", f"127.0.0.1:{port}") from exc
        self.port = int(self._server.server_address[1])
        self._thread = threading.Thread(target=self._server.serve_forever, name="pages", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop answering."""
        self._server.shutdown()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler]) -> None:
        self._room = threading.BoundedSemaphore(_AT_ONCE)
        super().__init__(address, handler)

    def process_request(self, request: socket | tuple[bytes, socket], client_address: Any) -> None:
        if self._room.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: socket | tuple[bytes, socket], client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._room.release()

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing: a client that went away is no event."""


def _handler(pages: Pages) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        timeout = _TIMEOUT_S
        server_version = "kboot"
        sys_version = ""

        def do_GET(self) -> None:
            page = pages(self.path.partition("?")[0])
            body = page.text.encode()
            self.send_response(page.status)
            self.send_header("Content-Type", page.content_type)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Keep every scrape out of the log."""

    return Handler
