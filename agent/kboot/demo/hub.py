"""A Hub on loopback: serves one real checkpoint as huggingface.co does, to whatever client asks.

    python -m kboot.demo.hub --data DIR [--port 0] [--shards 111] [--mib-per-shard 2]

Large files are redirected to a CDN of another origin (127.0.0.2) by a link that is signed and runs out. The same
repository is also there as gated/NAME, private/NAME and limited/NAME, which refuse as the real Hub refuses.
"""

from __future__ import annotations

import argparse
import hashlib
import hmac
import json
import os
import re
import secrets
import signal
import socket
import sys
import threading
import time
import urllib.parse
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

from kboot.demo.checkpoint import Checkpoint, File, make
from kboot.demo.proc import die_with_parent

HUB_ADDRESS = "127.0.0.1"
CDN_ADDRESS = "127.0.0.2"  # another host to a client, and loopback all the same

_JSON = "application/json; charset=utf-8"
_PIECE_BYTES = 256 << 10
_REFUSING = ("gated", "limited", "private")


@dataclass(frozen=True, slots=True)
class Reply:
    """What is sent: a body, or `size_bytes` of a file from `offset`."""

    status: int
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""
    path: Path | None = None
    offset: int = 0
    size_bytes: int = 0
    kind: str = _JSON


@dataclass(slots=True)
class Hub:
    """One repository and how it is given out.

    names: every name it has, lower case → as it is spelt. cdn: origin of its links.
    token: opens gated/ and private/; None: nothing does. rate_mib_s: over all connections; 0 = no limit.
    """

    repo: str
    checkpoint: Checkpoint
    token: str | None = None
    rate_mib_s: float = 0.0
    link_ttl_s: float = 3600.0
    cdn: str = ""
    key: bytes = field(default_factory=lambda: secrets.token_bytes(32))
    files: dict[str, File] = field(init=False)
    blobs: dict[str, File] = field(init=False)
    names: dict[str, str] = field(init=False)
    pace: Pace | None = field(init=False)

    def __post_init__(self) -> None:
        name = self.repo.partition("/")[2]
        self.files = {f.path: f for f in self.checkpoint.files}
        self.blobs = {f.sha256: f for f in self.checkpoint.files if f.sha256}
        self.names = {known.lower(): known for known in (self.repo, *(f"{owner}/{name}" for owner in _REFUSING))}
        self.pace = Pace(self.rate_mib_s * (1 << 20)) if self.rate_mib_s else None


class Pace:
    """Holds senders to a rate all together."""

    def __init__(self, bytes_per_s: float) -> None:
        self._bytes_per_s = bytes_per_s
        self._lock = threading.Lock()
        self._free_at_s = 0.0

    def wait_s(self, size_bytes: int, now_s: float) -> float:
        """Return how long a sender must wait before that many bytes, and book them."""
        with self._lock:
            start_s = max(self._free_at_s, now_s)
            self._free_at_s = start_s + size_bytes / self._bytes_per_s
        return start_s - now_s


def answer(hub: Hub, method: str, target: str, headers: dict[str, str], body: bytes) -> Reply:
    """Return the Hub's answer to a request; header names in lower case."""
    path = urllib.parse.unquote(urllib.parse.urlsplit(target).path)
    token = headers.get("authorization", "").removeprefix("Bearer ").strip()
    if path == "/api/whoami-v2":
        known = bool(token) and token == hub.token
        return _json({"type": "user", "name": "demo"}) if known else _error(401, "", "Invalid credentials")
    if found := re.fullmatch(r"/api/models/([^/]+/[^/]+)(?:/(revision|tree|paths-info)/([^/]+)(?:/(.*))?)?", path):
        repo, what, revision, rest = found[1], found[2] or "revision", found[3] or "main", found[4] or ""
        return _refused(hub, repo, token, listing=True) or _api(hub, repo, what, revision, rest, body, method)
    if found := re.fullmatch(r"/([^/]+/[^/]+)/resolve/([^/]+)/(.+)", path):
        return _refused(hub, found[1], token, listing=False) or _resolve(hub, found[2], found[3], headers)
    return _error(404, "", "Not Found")


def _refused(hub: Hub, repo: str, token: str, *, listing: bool) -> Reply | None:
    """Return why this repository is not given to this token; None when it is."""
    name = hub.names.get(repo.lower())
    owner = name.partition("/")[0] if name else ""
    granted = bool(token) and token == hub.token
    if name is None or (owner == "private" and not granted):
        # The real Hub does not say whether a repository is missing or hidden.
        return _error(404 if granted else 401, "RepoNotFound", "Repository not found")
    if owner == "limited":
        limits = (("RateLimit", '"api";r=0;t=210'), ("RateLimit-Policy", '"fixed window";"api";q=500;w=300'))
        return _error(429, "", "We had to rate limit your IP.", *limits, ("Retry-After", "210"))
    if owner == "gated" and not granted and not listing:
        text = f"Access to model {name} is restricted."
        more = "You are not in the authorized list." if token else "Please log in."
        return _error(403 if token else 401, "GatedRepo", f"{text} {more}")
    return None


def _api(hub: Hub, repo: str, what: str, revision: str, rest: str, body: bytes, method: str) -> Reply:
    commit = hub.checkpoint.commit
    if revision not in ("main", "refs/heads/main", commit):
        return _error(404, "RevisionNotFound", f"Invalid rev id: {revision}")
    if what == "paths-info":
        return _paths_info(hub, body) if method == "POST" else _error(405, "", "Method Not Allowed")
    if what == "tree":
        return _json(_tree(hub, rest))
    name = hub.names[repo.lower()]
    gated = "auto" if name.startswith("gated/") else False
    siblings = [{"rfilename": path} for path in hub.files]
    known = {"id": name, "modelId": name, "sha": commit, "private": name.startswith("private/"), "gated": gated}
    return _json({"_id": commit[:24], **known, "tags": [], "downloads": 0, "likes": 0, "siblings": siblings})


def _tree(hub: Hub, below: str) -> list[dict[str, object]]:
    folders = sorted({path.rpartition("/")[0] for path in hub.files if "/" in path})
    entries = [
        {"type": "directory", "oid": hashlib.sha1(f.encode()).hexdigest(), "size": 0, "path": f} for f in folders
    ]
    entries += [_entry(f) for f in hub.files.values()]
    return [e for e in entries if not below or str(e["path"]).startswith(f"{below}/")]


def _entry(file: File) -> dict[str, object]:
    entry: dict[str, object] = {"type": "file", "oid": file.oid, "size": file.size_bytes, "path": file.path}
    if file.sha256:
        entry["lfs"] = {"oid": file.sha256, "size": file.size_bytes, "pointerSize": 133}
    return entry


def _paths_info(hub: Hub, body: bytes) -> Reply:
    try:
        wanted = json.loads(body)["paths"]
    except (ValueError, KeyError, TypeError):
        wanted = urllib.parse.parse_qs(body.decode(errors="replace")).get("paths", [])
    return _json([_entry(hub.files[path]) for path in wanted if path in hub.files])


def _resolve(hub: Hub, revision: str, path: str, headers: dict[str, str]) -> Reply:
    commit = hub.checkpoint.commit
    if revision not in ("main", commit):
        return _error(404, "RevisionNotFound", f"Invalid rev id: {revision}")
    file = hub.files.get(path)
    if file is None:
        return _error(404, "EntryNotFound", "Entry not found", ("X-Repo-Commit", commit))
    common = (("X-Repo-Commit", commit), ("Accept-Ranges", "bytes"))
    if file.sha256 is None:
        return _file(hub, file, headers, (*common, ("ETag", f'"{file.oid}"')))
    linked = (
        ("X-Linked-Size", str(file.size_bytes)),
        ("X-Linked-Etag", f'"{file.sha256}"'),
        ("ETag", f'"{file.sha256}"'),
    )
    return Reply(302, (*common, *linked, ("Location", link(hub, file.sha256))), kind="text/plain")


def link(hub: Hub, sha256: str) -> str:
    """Return a link to the CDN that works until its time is over."""
    until = str(int(time.time() + hub.link_ttl_s))
    return f"{hub.cdn}/repos/{sha256}?Expires={until}&Signature={_signature(hub, sha256, until)}"


def _signature(hub: Hub, sha256: str, until: str) -> str:
    return hmac.new(hub.key, f"{sha256} {until}".encode(), hashlib.sha256).hexdigest()


def answer_cdn(hub: Hub, target: str, headers: dict[str, str]) -> Reply:
    """Return the CDN's answer: bytes for a good link, XML as S3 writes it for another."""
    parts = urllib.parse.urlsplit(target)
    query = dict(urllib.parse.parse_qsl(parts.query))
    sha256, until = parts.path.rpartition("/")[2], query.get("Expires", "0")
    file = hub.blobs.get(sha256)
    if "authorization" in headers:
        return _xml(400, "InvalidArgument", "Only one auth mechanism allowed")
    if file is None or not hmac.compare_digest(query.get("Signature", ""), _signature(hub, sha256, until)):
        return _xml(403, "AccessDenied", "Access Denied")
    if float(until) < time.time():
        return _xml(403, "AccessDenied", "Request has expired")
    return _file(hub, file, headers, (("Accept-Ranges", "bytes"), ("ETag", f'"{sha256}"')))


def _file(hub: Hub, file: File, headers: dict[str, str], more: tuple[tuple[str, str], ...]) -> Reply:
    """Return the file or the one range of it that was asked for."""
    size = file.size_bytes
    path = hub.checkpoint.folder / file.path
    found = re.fullmatch(r"bytes=(\d*)-(\d*)", headers.get("range", ""))
    if found is None or found.groups() == ("", ""):
        return Reply(200, more, path=path, size_bytes=size, kind="application/octet-stream")
    first = int(found[1]) if found[1] else max(0, size - int(found[2]))
    last = min(int(found[2]), size - 1) if found[1] and found[2] else size - 1
    if first > last:
        return Reply(416, (("Content-Range", f"bytes */{size}"),), kind="text/plain")
    part = ("Content-Range", f"bytes {first}-{last}/{size}")
    return Reply(206, (*more, part), b"", path, first, last - first + 1, "application/octet-stream")


def _json(document: object) -> Reply:
    return Reply(200, body=json.dumps(document).encode())


def _error(status: int, code: str, message: str, *more: tuple[str, str]) -> Reply:
    named = (("X-Error-Code", code),) if code else ()
    return Reply(status, (*named, ("X-Error-Message", message), *more), json.dumps({"error": message}).encode())


def _xml(status: int, code: str, message: str) -> Reply:
    text = f'<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>{code}</Code><Message>{message}</Message></Error>'
    return Reply(status, body=text.encode(), kind="application/xml")


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    hub: ClassVar[Hub]
    cdn: ClassVar[bool]

    def do_GET(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(length) if length else b""
        headers = {name.lower(): value for name, value in self.headers.items()}
        if self.cdn:
            self._send(answer_cdn(self.hub, self.path, headers))
        else:
            self._send(answer(self.hub, self.command, self.path, headers, body))

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_POST(self) -> None:
        self.do_GET()

    def _send(self, reply: Reply) -> None:
        self.send_response(reply.status)
        for name, value in reply.headers:
            self.send_header(name, value)
        self.send_header("Content-Type", reply.kind)
        self.send_header("Content-Length", str(reply.size_bytes if reply.path else len(reply.body)))
        self.end_headers()
        if self.command != "HEAD":
            if reply.path:
                self._send_file(reply.path, reply.offset, reply.size_bytes)
            elif reply.body:
                self.wfile.write(reply.body)

    def _send_file(self, path: Path, offset: int, left: int) -> None:
        with open(path, "rb") as file:
            while left:
                piece = left
                if self.hub.pace is not None:
                    piece = min(left, _PIECE_BYTES)
                    time.sleep(self.hub.pace.wait_s(piece, time.monotonic()))
                sent = os.sendfile(self.connection.fileno(), file.fileno(), offset, piece)
                if not sent:
                    self.close_connection = True
                    return
                offset, left = offset + sent, left - sent

    def handle(self) -> None:
        try:
            super().handle()
        except (ConnectionError, TimeoutError):
            self.close_connection = True

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        pass


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256

    def get_request(self) -> tuple[socket.socket, object]:
        request, address = super().get_request()
        request.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return request, address


def listen(hub: Hub, port: int) -> tuple[ThreadingHTTPServer, ThreadingHTTPServer]:
    """Open the Hub and its CDN; both serve once their serve_forever() runs."""
    hub_handler = type("HubHandler", (_Handler,), {"hub": hub, "cdn": False})
    cdn_handler = type("CdnHandler", (_Handler,), {"hub": hub, "cdn": True})
    front = _Server((HUB_ADDRESS, port), hub_handler)
    cdn = _Server((CDN_ADDRESS, 0), cdn_handler)
    hub.cdn = f"http://{CDN_ADDRESS}:{cdn.server_port}"
    return front, cdn


def main(argv: list[str] | None = None) -> int:
    """Make the checkpoint if needed, serve until SIGTERM or SIGINT."""
    parser = argparse.ArgumentParser(prog="python -m kboot.demo.hub", description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="folder that keeps the checkpoint")
    parser.add_argument("--port", type=int, default=0, help="0: a free one, printed")
    parser.add_argument("--repo", default="kboot/demo-moe")
    parser.add_argument("--shards", type=int, default=111)
    parser.add_argument("--mib-per-shard", type=float, default=2.0)
    parser.add_argument("--rate-mib-s", type=float, default=0.0, help="over all connections; 0: no limit")
    parser.add_argument("--link-ttl-s", type=float, default=3600.0, help="how long a CDN link works")
    parser.add_argument("--token", help="opens gated/ and private/")
    parser.add_argument("--port-file", type=Path, help="written with the endpoint once it listens")
    parser.add_argument("--with-parent", action="store_true", help="end when the parent process does")
    asked = parser.parse_args(argv)
    if asked.with_parent:
        die_with_parent(os.getppid())
    try:
        checkpoint = make(asked.data, asked.shards, asked.mib_per_shard)
        hub = Hub(asked.repo, checkpoint, asked.token, asked.rate_mib_s, asked.link_ttl_s)
        servers = listen(hub, asked.port)
    except (OSError, ValueError) as exc:
        print(f"kboot.demo.hub: {exc}", file=sys.stderr)
        return 1
    _serve(servers, asked.repo, checkpoint.commit, asked.port_file)
    return 0


def _serve(servers: tuple[ThreadingHTTPServer, ...], repo: str, commit: str, port_file: Path | None) -> None:
    endpoint = f"http://{HUB_ADDRESS}:{servers[0].server_port}"
    stop = {signal.SIGTERM, signal.SIGINT}
    signal.pthread_sigmask(signal.SIG_BLOCK, stop)
    for server in servers:
        threading.Thread(target=server.serve_forever, daemon=True).start()
    line = json.dumps({"endpoint": endpoint, "repo": repo, "commit": commit})
    if port_file:
        temp = port_file.with_name(f"{port_file.name}.tmp")
        temp.write_text(f"{line}\n")
        temp.replace(port_file)
    print(line, flush=True)
    signal.sigwait(stop)


if __name__ == "__main__":
    sys.exit(main())
