"""A Hub on loopback, with real sockets, that can be told how to fail.

It speaks what a listing asks for (revision, tree in pages) and what a downloader asks for (ranges, redirects to a
second origin, ETags). `FakeHub(files)` serves; `hub.fault(path, Cut(1000), Flip(5))` makes the next answers for a file
wrong, in that order; `hub.requests` is what was asked.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import re
import ssl
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Self
from urllib.parse import parse_qs, unquote, urlsplit

REPO = "org/m"
COMMIT = "c" * 40
TLS = Path(__file__).parent / "tls"


@dataclass(frozen=True)
class Cut:
    """Close the connection after so many bytes of body."""

    after: int


@dataclass(frozen=True)
class Stall:
    """Send nothing more after so many bytes of body, and keep the connection."""

    after: int


@dataclass(frozen=True)
class Slow:
    """Send this one answer at another rate."""

    rate_bytes_s: int


@dataclass(frozen=True)
class Flip:
    """Flip one bit of the byte at this offset of the file."""

    at: int


@dataclass(frozen=True)
class Status:
    """Answer with a status instead of bytes."""

    code: int
    headers: Mapping[str, str] = field(default_factory=dict)
    text: str = ""


@dataclass(frozen=True)
class Headers:
    """Answer as usual, with these headers instead; None takes one away."""

    headers: Mapping[str, str | None]


@dataclass(frozen=True)
class Whole:
    """Ignore the range: 200 and the file from its first byte."""


@dataclass(frozen=True)
class Chunked:
    """Send the body in chunks, without a length."""


@dataclass(frozen=True)
class Trickle:
    """Answer a question for revision or tree with white space, a byte at a time, without an end."""

    chunked: bool = False


@dataclass(frozen=True)
class Late:
    """Answer a question for revision or tree as usual, once `hub.released` is set."""


Fault = Cut | Stall | Slow | Flip | Status | Headers | Whole | Chunked


@dataclass(frozen=True)
class Request:
    """What was asked: of the Hub itself or of its second origin, which path, with which headers (lower case)."""

    origin: str
    path: str
    headers: Mapping[str, str]

    @property
    def range(self) -> str:
        return self.headers.get("range", "")


class FakeHub:
    """Serves files of one repository at one commit.

    token: wanted in every request to the Hub. cdn: LFS files are redirected to a second origin with a signed link.
    lfs: which paths are kept in LFS. rate_bytes_s: per connection; 0 = as fast as it goes. page: entries per page of
    the tree. tls: serve https with tests/fakes/tls. address: to listen on. sent_bytes: of files' contents, so far.
    """

    def __init__(
        self,
        files: Mapping[str, bytes],
        *,
        repo: str = REPO,
        commit: str = COMMIT,
        token: str = "",
        cdn: bool = False,
        rate_bytes_s: int = 0,
        page: int = 1000,
        tls: bool = False,
        address: str = "127.0.0.1",
    ) -> None:
        self.sent_bytes = 0
        self.files = dict(files)
        self.repo = repo
        self.commit = commit
        self.token = token
        self.cdn = cdn
        self.rate_bytes_s = rate_bytes_s
        self.page = page
        self.requests: list[Request] = []
        self.api_status: list[Status | Trickle | Late] = []  # answers to the next questions for revision or tree
        self.packs_api = ""  # how answers to such questions are packed, whatever is asked for: gzip
        self.every_file: Fault | None = None
        self.without_lfs_hashes = False
        self.xet: dict[str, str] = {}  # path → its hash in the content-addressed store
        self.cas_url = ""  # of that store
        self.signature = "first"  # what a link must carry now
        self.released = threading.Event()
        self.most_at_once = 0
        self.wait_for_clients = 0  # nobody gets a listing before so many addresses have asked for one
        self._clients: set[str] = set()
        self._gathered = threading.Condition()
        self._sending = 0
        self._sha256_of: dict[bytes, str] = {}
        self._faults: dict[str, list[Fault]] = {}
        self._lock = threading.Lock()
        self._server = _server(self, "hub", tls, address)
        self._cdn = _server(self, "cdn", tls, address)
        scheme = "https" if tls else "http"
        self.url = f"{scheme}://{address}:{self._server.server_port}"
        # Another origin by port, and by name as well: some clients compare names only.
        self.cdn_url = f"{scheme}://localhost:{self._cdn.server_port}"

    def __enter__(self) -> Self:
        for server in (self._server, self._cdn):
            threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        return self

    def __exit__(self, *_exc: object) -> None:
        self.released.set()
        for server in (self._server, self._cdn):
            server.shutdown()
            server.server_close()

    def fault(self, path: str, *faults: Fault) -> None:
        """Let the next answers with bytes of a file go wrong, one after the other."""
        with self._lock:
            self._faults.setdefault(path, []).extend(faults)

    def next_fault(self, path: str) -> Fault | None:
        with self._lock:
            waiting = self._faults.get(path)
            return waiting.pop(0) if waiting else self.every_file

    def sending(self, more: int) -> None:
        """Count the answers that are being sent."""
        with self._lock:
            self._sending += more
            self.most_at_once = max(self.most_at_once, self._sending)

    def sent(self, size_bytes: int) -> None:
        """Count bytes of files that went out."""
        with self._lock:
            self.sent_bytes += size_bytes

    def gather(self, client: str) -> None:
        """Wait until as many clients have asked as are to be waited for."""
        with self._gathered:
            self._clients.add(client)
            self._gathered.notify_all()
            self._gathered.wait_for(lambda: len(self._clients) >= self.wait_for_clients, timeout=60)

    def asked(self, path: str) -> list[Request]:
        """Return the requests that asked either origin for a file's bytes."""
        return [r for r in list(self.requests) if r.path.endswith("/" + path) and "/api/" not in r.path]

    @property
    def bytes_of_files(self) -> int:
        return sum(len(data) for data in self.files.values())

    def is_lfs(self, path: str) -> bool:
        return path.endswith((".safetensors", ".bin"))

    def entry(self, path: str) -> dict[str, object]:
        data = self.files[path]
        entry: dict[str, object] = {"type": "file", "path": path, "size": len(data)}
        if not self.is_lfs(path):
            return entry | {"oid": git_sha1(data)}
        lfs: dict[str, object] = {"oid": self.sha256(data), "size": len(data), "pointerSize": 134}
        if self.without_lfs_hashes:
            del lfs["oid"]
        return entry | {"oid": "b" * 40, "lfs": lfs}

    def sha256(self, data: bytes) -> str:
        """Return the hash of a content, which is made once: every request for it asks."""
        if data not in self._sha256_of:
            self._sha256_of[data] = hashlib.sha256(data).hexdigest()
        return self._sha256_of[data]


def git_sha1(data: bytes) -> str:
    """Return the git blob SHA-1."""
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


def _server(hub: FakeHub, origin: str, tls: bool, address: str) -> ThreadingHTTPServer:
    class Handler(_Handler):
        pass

    Handler.hub, Handler.origin = hub, origin

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        request_queue_size = 128

        def handle_error(self, request: object, client_address: object) -> None:
            """A client that hangs up is part of the tests."""

    server = Server((address, 0), Handler)
    if tls:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(TLS / "server.pem", TLS / "server.key")
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    return server


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1
    hub: FakeHub
    origin: str

    def log_message(self, *args: object) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        hub, path = self.hub, unquote(urlsplit(self.path).path)
        hub.requests.append(Request(self.origin, path, {k.lower(): v for k, v in self.headers.items()}))
        if self.origin == "cdn":
            self._cdn(path)
        elif hub.token and self.headers.get("Authorization") != f"Bearer {hub.token}":
            self._reply(401, {"X-Error-Code": "RepoNotFound"}, b"{}")
        elif path.startswith("/api/models/"):
            self._api(path)
        else:
            self._resolve(path)

    def do_HEAD(self) -> None:
        self.do_GET()

    def _api(self, path: str) -> None:
        hub = self.hub
        hub.gather(str(self.client_address[0]))
        if hub.api_status:
            fault = hub.api_status.pop(0)
            if isinstance(fault, Trickle):
                return self._trickle(fault.chunked)
            if isinstance(fault, Status):
                return self._reply(fault.code, fault.headers, fault.text.encode())
            hub.released.wait(60)
        if path == f"/api/models/{hub.repo}/xet-read-token/{hub.commit}":
            until = str(int(time.time()) + 3600)
            access = {"X-Xet-Cas-Url": hub.cas_url, "X-Xet-Access-Token": "xet", "X-Xet-Token-Expiration": until}
            return self._json({"accessToken": "xet", "exp": int(until), "casUrl": hub.cas_url}, access)
        found = re.fullmatch(r"/api/models/([^/]+/[^/]+)/(revision|tree)/(.+)", path)
        if not found or found[1].lower() != hub.repo.lower():
            return self._reply(404, {"X-Error-Code": "RepoNotFound"}, b"{}")
        if found[3] not in ("main", hub.commit):
            return self._reply(404, {"X-Error-Code": "RevisionNotFound"}, b"{}")
        if found[2] == "revision":
            return self._json({"_id": "0", "id": hub.repo, "modelId": hub.repo, "sha": hub.commit, "siblings": []})
        start = int(parse_qs(urlsplit(self.path).query).get("cursor", ["0"])[0])
        paths = sorted(hub.files)[start : start + hub.page]
        more = start + hub.page < len(hub.files)
        link = {"Link": f'<{hub.url}{path}?cursor={start + hub.page}>; rel="next"'} if more else {}
        folders = [{"type": "directory", "oid": "d" * 40, "size": 0, "path": "folder"}]
        return self._json(folders + [hub.entry(p) for p in paths], link)

    def _resolve(self, path: str) -> None:
        hub = self.hub
        found = re.fullmatch(r"/([^/]+/[^/]+)/resolve/([^/]+)/(.+)", path)
        if not found or found[2] != hub.commit or found[3] not in hub.files:
            return self._reply(404, {"X-Error-Code": "EntryNotFound"}, b"Entry not found")
        name = found[3]
        headers = {"X-Repo-Commit": hub.commit}
        if hub.cdn and hub.is_lfs(name):
            link = f"{hub.cdn_url}/store/{name}?Signature={hub.signature}"
            return self._reply(302, headers | {"Location": link}, b"Found. Redirecting")
        if name in hub.xet:
            route = f"{hub.url}/api/models/{hub.repo}/xet-read-token/{hub.commit}"
            headers |= {"X-Xet-Hash": hub.xet[name], "X-Xet-Refresh-Route": route}
            headers |= {"X-Linked-Etag": hub.sha256(hub.files[name])}
        return self._bytes(name, headers | {"ETag": f'"{hub.entry(name)["oid"]}"'})

    def _cdn(self, path: str) -> None:
        name = path.removeprefix("/store/")
        if parse_qs(urlsplit(self.path).query).get("Signature") != [self.hub.signature]:
            text = b"<Error><Code>AccessDenied</Code><Message>Request has expired</Message></Error>"
            return self._reply(403, {"Content-Type": "application/xml"}, text)
        if "Authorization" in self.headers:
            return self._reply(400, {}, b"Only one auth mechanism allowed")
        return self._bytes(name, {})

    def _bytes(self, name: str, headers: dict[str, str]) -> None:
        fault = self.hub.next_fault(name)
        if isinstance(fault, Status):
            return self._reply(fault.code, fault.headers, fault.text.encode())
        data = self.hub.files[name]
        if isinstance(fault, Flip):
            data = data[: fault.at] + bytes([data[fault.at] ^ 1]) + data[fault.at + 1 :]
        start, end, status = 0, len(data), 200
        wanted = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        if wanted and not isinstance(fault, (Whole, Chunked)):
            start, end = int(wanted[1]), min(int(wanted[2]) + 1 if wanted[2] else len(data), len(data))
            if start >= end:
                return self._reply(416, {"Content-Range": f"bytes */{len(data)}"}, b"")
            status, headers = 206, headers | {"Content-Range": f"bytes {start}-{end - 1}/{len(data)}"}
        all_headers: dict[str, str | None] = {**headers, "Content-Length": str(end - start)}
        if isinstance(fault, Headers):
            all_headers |= fault.headers
        if isinstance(fault, Chunked):
            all_headers |= {"Content-Length": None, "Transfer-Encoding": "chunked"}
        self.send_response(status)
        for key, value in all_headers.items():
            if value is not None:
                self.send_header(key, value)
        if all_headers["Content-Length"] is None and not isinstance(fault, Chunked):
            self.send_header("Connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self.hub.sending(1)
            try:
                self._send(memoryview(data)[start:end], fault)
            finally:
                self.hub.sending(-1)
        return None

    def _send(self, data: memoryview, fault: Fault | None) -> None:
        if isinstance(fault, (Cut, Stall)):
            data = data[: fault.after]
        rate_bytes_s = fault.rate_bytes_s if isinstance(fault, Slow) else self.hub.rate_bytes_s
        step = 64 << 10
        for at in range(0, len(data), step):
            piece = data[at : at + step]
            self.wfile.write(b"%x\r\n%b\r\n" % (len(piece), piece) if isinstance(fault, Chunked) else piece)
            self.hub.sent(len(piece))
            if rate_bytes_s:
                self.wfile.flush()
                time.sleep(len(piece) / rate_bytes_s)
        if isinstance(fault, Chunked):
            self.wfile.write(b"0\r\n\r\n")
        self.wfile.flush()
        if isinstance(fault, Stall):
            self.hub.released.wait(60)
        if isinstance(fault, (Cut, Stall)):
            self.close_connection = True

    def _trickle(self, chunked: bool) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header(*("Transfer-Encoding", "chunked") if chunked else ("Content-Length", str(1 << 30)))
        self.end_headers()
        while not self.hub.released.wait(0.05):
            self.wfile.write(b"1\r\n \r\n" if chunked else b" ")
            self.wfile.flush()

    def _json(self, value: object, headers: Mapping[str, str] = {}) -> None:
        data = json.dumps(value).encode()
        if self.hub.packs_api:
            data, headers = gzip.compress(data), {**headers, "Content-Encoding": self.hub.packs_api}
        self._reply(200, {"Content-Type": "application/json", **headers}, data)

    def _reply(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        self.send_response(status)
        for key, value in headers.items():
            self.send_header(key, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)
