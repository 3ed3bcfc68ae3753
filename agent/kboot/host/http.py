"""What does an HTTP server on this machine answer, and who holds its port?"""

from __future__ import annotations

import http.client
import json
import socket
from collections.abc import Mapping
from contextlib import suppress
from urllib.parse import urlsplit

from kboot.host.listeners import is_listened, listeners
from kboot.values import dataclass

_BODY_LIMIT_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Answer:
    """status: None when nothing answered; problem then says why. body: cut at 1 MiB."""

    status: int | None
    body: bytes = b""
    problem: str = ""

    @property
    def ok(self) -> bool:
        """Return whether the server said 200."""
        return self.status == 200

    def json(self) -> object:
        """Return the body as JSON; None when it is not."""
        with suppress(ValueError):
            return json.loads(self.body)
        return None


def ask(url: str, timeout_s: float, post: Mapping[str, object] | None = None) -> Answer:
    """GET a URL, or POST a JSON document to it; never raises for a server that is absent, slow or broken.

    timeout_s: for each step (connect, send, first byte, each read). Proxies of the environment are not used.
    """
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "127.0.0.1", parts.port or 80, timeout=timeout_s)
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    try:
        if post is None:
            connection.request("GET", path)
        else:
            connection.request("POST", path, json.dumps(post), {"Content-Type": "application/json"})
        response = connection.getresponse()
        return Answer(response.status, response.read(_BODY_LIMIT_BYTES))
    except (OSError, http.client.HTTPException) as exc:
        return Answer(None, problem=str(exc) or type(exc).__name__)
    finally:
        connection.close()


def port_in_use(host: str, port: int) -> str | None:
    """Return why a server could not listen there, with the holder where it can be found; None when it could."""
    try:
        family, kind, proto, _, address = socket.getaddrinfo(
            host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except OSError as exc:
        return f"{host} is not an address: {exc.strerror}"
    try:
        with socket.socket(family, kind, proto) as probe:
            # As servers do: without it, connections of a server that has just stopped look like a server.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
            probe.listen(1)
    except OSError as exc:
        return _holder(port) or exc.strerror or str(exc)
    return None


def _holder(port: int) -> str | None:
    if pids := listeners(port):
        return held_by(pids[0])
    return "held by a process of another user" if is_listened(port) else None


def held_by(pid: int) -> str:
    """Return words for a process that has a port."""
    import psutil

    with suppress(psutil.Error):
        words = psutil.Process(pid).cmdline()
        return f"held by pid {pid} ({' '.join(words)[:80].strip()})"
    return f"held by pid {pid}"
