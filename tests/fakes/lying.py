"""An HTTP server that answers by rules, so that a recorded misbehaviour can be played back.

Rules, in order: `match` method (`*` = any), path (`*` at the end = prefix), header_range; `times`: how often a rule
answers before it is passed over; `reply` status, headers and body. A body is `text`, or `bytes` N of a pattern from
`offset`; `close_after`/`stall_after` K bytes. Byte i of the pattern is (31*i + 7) mod 256. A Location on host `cdn`
leads back to this server under another name.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

from fakes.hub import Request


def pattern(size: int, offset: int = 0) -> bytes:
    """Return bytes of the pattern."""
    return bytes((31 * i + 7) % 256 for i in range(offset, offset + size))


class LyingServer:
    """Plays one list of rules; `requests` is what was asked."""

    def __init__(self, rules: list[dict[str, Any]]) -> None:
        self.requests: list[Request] = []
        self.released = threading.Event()
        self._rules = [dict(rule) for rule in rules]
        self._lock = threading.Lock()

        class Handler(_Handler):
            server_of_rules = self

        class Server(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, request: object, client_address: object) -> None:
                """A client that hangs up is part of the tests."""

        self._server = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self.cdn_url = f"http://localhost:{self._server.server_port}"

    @classmethod
    def of_case(cls, folder: Path) -> Self:
        """Play the http.json of a recorded case."""
        return cls(json.loads((folder / "http.json").read_text())["rules"])

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        return self

    def __exit__(self, *_exc: object) -> None:
        self.released.set()
        self._server.shutdown()
        self._server.server_close()

    def reply_to(self, method: str, path: str, headers: Mapping[str, str]) -> dict[str, Any]:
        """Return the reply of the first rule that matches; it may be used up by this."""
        with self._lock:
            for rule in self._rules:
                if _matches(rule["match"], method, path, headers) and rule.get("times", 1) > 0:
                    if "times" in rule:
                        rule["times"] -= 1
                    reply: dict[str, Any] = rule["reply"]
                    return reply
        return {"status": 404, "headers": {}}


def _matches(match: Mapping[str, str], method: str, path: str, headers: Mapping[str, str]) -> bool:
    wanted = match["path"]
    return (
        match["method"] in ("*", method)
        and (path.startswith(wanted[:-1]) if wanted.endswith("*") else path == wanted)
        and match.get("header_range", headers.get("range")) == headers.get("range")
    )


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_of_rules: LyingServer

    def log_message(self, *args: object) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        server, path = self.server_of_rules, urlsplit(self.path).path
        headers = {key.lower(): value for key, value in self.headers.items()}
        server.requests.append(Request(headers.get("host", ""), path, headers))
        reply = server.reply_to(self.command, path, headers)
        body = reply.get("body", {})
        data = body["text"].encode() if "text" in body else pattern(body.get("bytes", 0), body.get("offset", 0))
        self.send_response(reply["status"])
        for key, value in reply["headers"].items():
            self.send_header(key, value.replace("http://cdn/", f"{server.cdn_url}/"))
        if "Content-Length" not in reply["headers"]:
            self.send_header("Connection", "close")
            self.close_connection = True
        self.end_headers()
        if self.command == "HEAD":
            return
        stop = body.get("close_after", body.get("stall_after"))
        self.wfile.write(data[:stop])
        if "stall_after" in body:
            server.released.wait(60)
        if stop is not None:
            self.close_connection = True

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_PUT(self) -> None:
        self.do_GET()
