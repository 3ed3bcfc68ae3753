"""How is one file received from a plain HTTP server, as a stream, with no listing that says what it is?"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from kboot.errors import SourceError
from kboot.sources.download import download

CONTENT = bytes(range(256)) * 10_000


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        match self.path:
            case "/file":
                self._send(200, CONTENT)
            case "/hop":
                self._send(302, b"", Location="/file")
            case "/round":
                self._send(302, b"", Location="/round")
            case "/nowhere":
                self._send(302, b"")
            case "/no-url":
                self._send(302, b"", Location="http://[::1/file")
            case "/cut":
                self._send(200, CONTENT[:1000], length=len(CONTENT))
                self.close_connection = True
            case "/chunked":
                self.send_response(200)
                self.send_header("Transfer-Encoding", "chunked")
                self.end_headers()
                for piece in (CONTENT[:70_000], CONTENT[70_000:], b""):
                    self.wfile.write(b"%x\r\n%b\r\n" % (len(piece), piece))
            case "/gzip":
                self._send(200, b"x", Content_Encoding="gzip")
            case "/zst":
                self._send(200, CONTENT, Content_Encoding="zstd")
            case "/expired":
                self._send(403, b"<Error><Code>AccessDenied</Code><Message>Request has expired</Message></Error>")
            case "/busy":
                self._send(503, b"later")
            case _:
                self._send(404, b"no")

    def _send(self, status: int, body: bytes, length: int | None = None, **headers: str) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body) if length is None else length))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_args: object) -> None:
        pass


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """A server on loopback."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Handler) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def receive(url: str) -> tuple[bytes, int | None]:
    """Return the whole body and the size the server said."""
    got = b""
    with download(url, connect_timeout_s=30.0, stall_timeout_s=30.0) as stream:
        while piece := stream.read(100_000):
            got += piece
        return got, stream.size_bytes


@pytest.mark.parametrize(
    ("path", "size"), [("/file", len(CONTENT)), ("/hop", len(CONTENT)), ("/chunked", None), ("/zst", len(CONTENT))]
)
def test_a_body_is_received_whole(url: str, path: str, size: int | None) -> None:
    """Straight, behind a redirect, in chunks of a length nobody said, and called zstd, which an archive is."""
    assert (CONTENT, size) == receive(url + path)


@pytest.mark.parametrize(
    ("path", "code", "retry"),
    [
        ("/cut", "short-body", True),
        ("/none", "download-refused", False),
        ("/busy", "download-refused", True),
        ("/round", "redirect-not-valid", False),
        ("/nowhere", "redirect-not-valid", False),
        ("/no-url", "redirect-not-valid", False),
        ("/gzip", "transformed-body", False),
    ],
)
def test_what_goes_wrong_is_said_with_whether_another_try_may_help(url: str, path: str, code: str, retry: bool) -> None:
    """A body that ends early is never a whole one."""
    with pytest.raises(SourceError) as caught:
        receive(url + path)

    assert (code, retry) == (caught.value.code, caught.value.retry)


def test_a_link_that_ran_out_is_told_as_such(url: str) -> None:
    """A seed's signed link is older than its node."""
    with pytest.raises(SourceError) as caught:
        receive(url + "/expired")

    assert "signed link may have expired" in str(caught.value.hint)


def test_a_signed_links_query_is_not_told() -> None:
    """Messages hold no password."""
    with pytest.raises(SourceError) as caught, download("http://127.0.0.1:9/a?sig=secret", connect_timeout_s=1.0):
        pass
    assert "secret" not in str(caught.value.to_json())
