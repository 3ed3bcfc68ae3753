"""A web server that knows nothing but files below a path: plain HTTP with ranges, enough of S3 to read and to put."""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Self
from urllib.parse import unquote, urlsplit


class ObjectServer:
    """Serves `objects` by path ("bucket/models/a.safetensors"); `requests` is what was asked, with its range.

    refuse: answer everything with this status.
    """

    def __init__(self, objects: Mapping[str, bytes]) -> None:
        self.objects = dict(objects)
        self.requests: list[tuple[str, str, str]] = []
        self.refuse = 0

        class Handler(_Handler):
            server_of_objects = self

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 128

            def handle_error(self, request: object, client_address: object) -> None:
                """A client that hangs up is part of the tests."""

        self._server = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        return self

    def __exit__(self, *_exc: object) -> None:
        self._server.shutdown()
        self._server.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1
    server_of_objects: ObjectServer

    def log_message(self, *args: object) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        served, path = self.server_of_objects, unquote(urlsplit(self.path).path).strip("/")
        wanted = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        served.requests.append((self.command, path, self.headers.get("Range", "")))
        data = served.objects.get(path)
        if served.refuse or data is None:
            return self._answer(served.refuse or 404, {}, b"<Error><Code>NoSuchKey</Code></Error>")
        start, end = 0, len(data)
        headers = {"ETag": '"1"', "Last-Modified": "Mon, 30 Nov 2026 06:00:00 GMT", "Accept-Ranges": "bytes"}
        if wanted:
            start, end = int(wanted[1]), min(int(wanted[2]) + 1 if wanted[2] else len(data), len(data))
            headers["Content-Range"] = f"bytes {start}-{end - 1}/{len(data)}"
        return self._answer(206 if wanted else 200, headers, data[start:end])

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_PUT(self) -> None:
        """Take an object that comes in one piece."""
        served, path = self.server_of_objects, unquote(urlsplit(self.path).path).strip("/")
        served.requests.append((self.command, path, ""))
        data = self.rfile.read(int(self.headers["Content-Length"]))
        if served.refuse:
            return self._answer(served.refuse, {}, b"<Error><Code>AccessDenied</Code></Error>")
        served.objects[path] = data
        return self._answer(200, {"ETag": '"1"'}, b"")

    def _answer(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        self.send_response(status)
        for key, value in headers.items():
            self.send_header(key, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)
