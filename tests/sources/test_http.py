"""The client against real servers: TLS, proxies, kept connections, interruption."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from fakes.hub import COMMIT, REPO, TLS, Chunked, Cut, FakeHub, Fault, Headers, Stall
from kboot.errors import SourceError
from kboot.host.clock import monotonic_s
from kboot.sources.framing import frame
from kboot.sources.http import Client
from kboot.sources.types import NotYet

NAME = "a.safetensors"
CONTENT = bytes(range(256)) * 4096
PATH = f"/{REPO}/resolve/{COMMIT}/{NAME}"
TRUST = {"SSL_CERT_FILE": str(TLS / "ca.pem")}


def receive(client: Client, url: str) -> bytes:
    answer = client.get(url, {})
    got, buffer = b"", memoryview(bytearray(100_000))
    with answer.body(frame(answer.status, answer.headers, 0, None, len(CONTENT))) as body:
        while n := body.readinto(buffer):
            got += bytes(buffer[:n])
    return got


@pytest.fixture
def hub() -> Iterator[FakeHub]:
    with FakeHub({NAME: CONTENT}) as server:
        yield server


@pytest.fixture
def secure() -> Iterator[FakeHub]:
    with FakeHub({NAME: CONTENT}, tls=True) as server:
        yield server


def test_bytes_come_over_tls(secure: FakeHub) -> None:
    """B033: with the private root named, an https server delivers, connection after connection."""
    client = Client(TRUST, 30.0, 60.0)

    assert CONTENT == receive(client, secure.url + PATH) == receive(client, secure.url + PATH)
    client.close()


def test_an_unknown_root_is_refused(secure: FakeHub) -> None:
    """B033: without it the certificate is refused, and the hint names the variable."""
    with pytest.raises(SourceError) as caught:
        Client({}, 30.0, 60.0).get(secure.url + PATH, {})

    assert ("certificate-refused", False) == (caught.value.code, caught.value.retry)
    assert "SSL_CERT_FILE" in (caught.value.hint or "")


def test_a_certificate_of_the_future_means_a_wrong_clock(tmp_path: Path) -> None:
    """B143: a certificate that is not valid yet is waited for: the clock may not be set."""
    import ssl

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(TLS / "future.pem", TLS / "server.key")
    with socket.create_server(("127.0.0.1", 0)) as server:

        def shake() -> None:
            connection, _ = server.accept()
            with connection, pytest.raises(OSError):
                context.wrap_socket(connection, server_side=True)

        thread = threading.Thread(target=shake, daemon=True)
        thread.start()
        with pytest.raises(NotYet) as caught:
            Client(TRUST, 30.0, 60.0).get(f"https://127.0.0.1:{server.getsockname()[1]}/", {})
        thread.join(60)

    assert "clock-not-set" == caught.value.code


def test_plain_text_where_tls_was_expected(hub: FakeHub) -> None:
    """An http server behind an https URL is a TLS failure, not a hang."""
    with pytest.raises(SourceError) as caught:
        Client({}, 30.0, 60.0).get(hub.url.replace("http:", "https:") + PATH, {})

    assert caught.value.code in ("tls-failed", "connection-cut")


def test_a_proxy_that_is_not_there_is_called_a_proxy() -> None:
    """Its address is in the environment, not in what the operator asked for: both are named."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        gone = f"127.0.0.1:{server.getsockname()[1]}"
    with pytest.raises(SourceError) as caught:
        Client({"HTTPS_PROXY": f"http://{gone}"}, 30.0, 60.0).get("https://hub.example/x", {})

    assert f"{gone} refuses connections; it is the proxy for hub.example:443" == caught.value.message
    assert ("connection-refused", True) == (caught.value.code, caught.value.retry)
    assert "NO_PROXY" in str(caught.value.hint)


class Proxy:
    """A small HTTP proxy: takes absolute URLs, and tunnels for CONNECT. `asked`: first line and headers of each."""

    def __init__(self, refuse: bool = False) -> None:
        self.asked: list[bytes] = []
        self._refuse = refuse
        self._server = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://user:pass@127.0.0.1:{self._server.getsockname()[1]}"
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                near, _ = self._server.accept()
            except OSError:
                return
            threading.Thread(target=self._one, args=(near,), daemon=True).start()

    def _one(self, near: socket.socket) -> None:
        head = b""
        while b"\r\n\r\n" not in head:
            head += near.recv(65536)
        self.asked.append(head)
        method, target = head.split(b" ")[:2]
        if self._refuse:
            near.sendall(b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n")
            return near.close()
        address = target if method == b"CONNECT" else target.split(b"/")[2]
        host, port = address.decode().split(":")
        far = socket.create_connection((host, int(port)))
        if method == b"CONNECT":
            near.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
        else:
            far.sendall(head.replace(target, b"/" + target.split(b"/", 3)[3], 1))
        for one, other in ((near, far), (far, near)):
            threading.Thread(target=_pump, args=(one, other), daemon=True).start()
        return None

    def close(self) -> None:
        self._server.close()


def _pump(one: socket.socket, other: socket.socket) -> None:
    try:
        while data := one.recv(65536):
            other.sendall(data)
        other.shutdown(socket.SHUT_WR)
    except OSError:
        return


def test_a_proxy_carries_plain_requests(hub: FakeHub) -> None:
    """HTTP_PROXY: the whole URL goes to the proxy, with its credentials."""
    proxy = Proxy()
    assert CONTENT == receive(Client({"HTTP_PROXY": proxy.url}, 30.0, 60.0), hub.url + PATH)
    proxy.close()

    assert proxy.asked[0].startswith(f"GET {hub.url}{PATH} HTTP/1.1".encode())
    assert b"Proxy-Authorization: Basic dXNlcjpwYXNz" in proxy.asked[0]


def test_a_proxy_tunnels_tls(secure: FakeHub) -> None:
    """HTTPS_PROXY: a tunnel, through which the server's own certificate is checked."""
    proxy = Proxy()
    assert CONTENT == receive(Client({**TRUST, "HTTPS_PROXY": proxy.url}, 30.0, 60.0), secure.url + PATH)
    proxy.close()

    assert proxy.asked[0].startswith(b"CONNECT 127.0.0.1:")
    assert b"authorization" not in {name.lower() for name in secure.requests[0].headers}
    assert "proxy-authorization" not in secure.requests[0].headers


def test_a_proxy_that_refuses_is_named(secure: FakeHub) -> None:
    """407 says which proxy said so."""
    proxy = Proxy(refuse=True)
    with pytest.raises(SourceError) as caught:
        Client({**TRUST, "HTTPS_PROXY": proxy.url}, 30.0, 60.0).get(secure.url + PATH, {})
    proxy.close()

    assert ("proxy-refused", False) == (caught.value.code, caught.value.retry)
    assert "407" in caught.value.message and "pass" not in caught.value.message


def test_a_certificate_behind_a_proxy_is_the_servers(secure: FakeHub) -> None:
    """aiconfigurator#1361 through a tunnel: whose certificate is not trusted is whom the URL names, not the proxy."""
    proxy = Proxy()
    with pytest.raises(SourceError) as caught:
        Client({"HTTPS_PROXY": proxy.url}, 30.0, 60.0).get(secure.url + PATH, {})
    proxy.close()

    assert "certificate-refused" == caught.value.code
    assert secure.url.partition("://")[2] in caught.value.message


def test_a_connection_is_used_again(hub: FakeHub) -> None:
    """A body read to its end leaves the connection for the next request; one that is left does not."""
    client = Client({}, 30.0, 60.0)
    receive(client, hub.url + PATH)
    kept = {id(wire) for wire in client._live}
    receive(client, hub.url + PATH)
    assert kept == {id(wire) for wire in client._live}

    answer = client.get(hub.url + PATH, {})
    with answer.body(frame(answer.status, answer.headers, 0, None, len(CONTENT))) as body:
        body.readinto(memoryview(bytearray(10)))
    assert set() == client._live


def test_a_kept_connection_that_died_is_replaced(hub: FakeHub) -> None:
    """A server may close between two requests: that is no failed try."""
    client = Client({}, 30.0, 60.0)
    receive(client, hub.url + PATH)
    for wire in client._live:
        socket.socket.shutdown(wire.sock, socket.SHUT_RDWR)

    assert CONTENT == receive(client, hub.url + PATH)


def test_an_answer_that_never_ends_its_head_is_left() -> None:
    """A byte every moment is no sign of life: the whole head must be there in time."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def drip() -> None:
            connection, _ = server.accept()
            connection.settimeout(0.01)
            with connection, suppress(ConnectionError):
                connection.sendall(b"HTTP/1.1 200 OK\r\nX: ")
                while True:
                    connection.sendall(b"x")
                    with suppress(TimeoutError):
                        if not connection.recv(1000):
                            return

        thread = threading.Thread(target=drip, daemon=True)
        thread.start()
        with pytest.raises(SourceError) as caught:
            Client({}, 30.0, 0.3).get(f"http://127.0.0.1:{server.getsockname()[1]}/", {})
        thread.join(60)

    assert ("source-silent", True) == (caught.value.code, caught.value.retry)


@pytest.mark.parametrize("tls", [False, True])
@pytest.mark.parametrize("headers", [{"Connection": "close"}, {"Connection": "close", "Content-Length": None}])
def test_the_last_answer_of_a_connection_is_read_to_its_end(tls: bool, headers: dict[str, str | None]) -> None:
    """http.client closes its socket before such a body is read."""
    with FakeHub({NAME: CONTENT}, tls=tls) as hub:
        hub.every_file = Headers(headers)

        assert CONTENT == receive(Client(TRUST, 30.0, 60.0), hub.url + PATH)


def test_a_silent_server_is_left(hub: FakeHub) -> None:
    """A body that stalls ends after the stall timeout with what had come before."""
    hub.every_file = Stall(1000)
    client = Client({}, 30.0, 2.0)
    answer = client.get(hub.url + PATH, {})
    with answer.body(frame(answer.status, answer.headers, 0, None, len(CONTENT))) as body:
        buffer = memoryview(bytearray(len(CONTENT)))
        assert 1000 == body.readinto(buffer)
        with pytest.raises(SourceError) as caught:
            body.readinto(buffer)

    assert ("source-silent", True) == (caught.value.code, caught.value.retry)


@pytest.mark.parametrize("tls", [False, True])
def test_interrupting_wakes_who_waits(tls: bool) -> None:
    """interrupt() from another thread ends a receive that would wait for a minute, and refuses new ones."""
    with FakeHub({NAME: CONTENT}, tls=tls) as hub:
        hub.every_file = Stall(1000)
        client = Client(TRUST, 30.0, 60.0)
        answer = client.get(hub.url + PATH, {})
        with answer.body(frame(answer.status, answer.headers, 0, None, len(CONTENT))) as body:
            buffer = memoryview(bytearray(5000))
            assert 1000 == body.readinto(buffer)
            threading.Timer(0.1, client.interrupt).start()
            with pytest.raises(SourceError) as caught:
                body.readinto(buffer)

        assert "interrupted" == caught.value.code
        with pytest.raises(SourceError):
            client.get(hub.url + PATH, {})


def test_what_does_not_speak_http_is_told_so() -> None:
    """Another protocol on the port is an error of its own."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def greet() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(1000)
                connection.sendall(b"220 mail ready\r\n")

        threading.Thread(target=greet, daemon=True).start()
        with pytest.raises(SourceError) as caught:
            Client({}, 30.0, 60.0).get(f"http://127.0.0.1:{server.getsockname()[1]}/", {})

    assert "not-http" == caught.value.code


def test_the_host_header_has_no_default_port(hub: FakeHub) -> None:
    """Signed links sign the Host header: it is written as a browser would."""
    client = Client({}, 30.0, 60.0)
    receive(client, hub.url + PATH)

    assert hub.url.removeprefix("http://") == hub.requests[0].headers["host"]
    assert "identity" == hub.requests[0].headers["accept-encoding"]


def test_a_body_without_a_length_is_read_to_its_end(hub: FakeHub) -> None:
    """Where no length is given, the end of the connection is the end of the body."""
    hub.every_file = Headers({"Content-Length": None})

    assert CONTENT == receive(Client({}, 30.0, 60.0), hub.url + PATH)


@pytest.mark.parametrize("fault", [None, Chunked(), Headers({"Content-Length": None})])
def test_an_answer_is_read_whole(hub: FakeHub, fault: Fault | None) -> None:
    """However its end is told; where it has more bytes than may come, there is none."""
    hub.every_file = fault
    client = Client({}, 30.0, 60.0)

    assert CONTENT == client.get(hub.url + PATH, {}).whole(len(CONTENT))
    assert None is client.get(hub.url + PATH, {}).whole(len(CONTENT) - 1)


@pytest.mark.parametrize(
    ("fault", "code"), [(Cut(1000), "short-body"), (Cut(0), "short-body"), (Stall(1000), "source-silent")]
)
def test_an_answer_that_is_not_whole_is_none(hub: FakeHub, fault: Fault, code: str) -> None:
    """An end before the announced one, or silence."""
    hub.every_file = fault
    with pytest.raises(SourceError) as caught:
        Client({}, 30.0, 1.0).get(hub.url + PATH, {}).whole(len(CONTENT))

    assert (code, True) == (caught.value.code, caught.value.retry)


def test_values_of_a_header_that_comes_twice_are_one_list(hub: FakeHub) -> None:
    """In the order in which they came."""
    hub.every_file = Headers({"Link": "<a>", "link": "<b>"})
    answer = Client({}, 30.0, 60.0).get(hub.url + PATH, {})
    answer.drop()

    assert ("<a>, <b>", "") == (answer.every("LINK"), answer.every("none"))


@pytest.mark.parametrize("tls", [False, True])
def test_time_that_is_over_ends_a_silence(tls: bool) -> None:
    """Long before the stall timeout, while the head is waited for and while the body is."""
    with socket.create_server(("127.0.0.1", 0)) as silent, pytest.raises(SourceError) as head:
        scheme = "https" if tls else "http"
        Client(TRUST, 30.0, 60.0).get(f"{scheme}://127.0.0.1:{silent.getsockname()[1]}/", {}, monotonic_s() + 0.3)
    with FakeHub({NAME: CONTENT}, tls=tls) as hub:
        hub.every_file = Stall(1000)
        answer = Client(TRUST, 30.0, 60.0).get(hub.url + PATH, {}, monotonic_s() + 2.0)
        with pytest.raises(SourceError) as body:
            answer.whole(len(CONTENT))

    assert ["source-silent"] * 2 == [head.value.code, body.value.code]


class Says:
    """A server that answers every connection with the same bytes, then the same piece again and again."""

    def __init__(self, head: bytes, piece: bytes = b"") -> None:
        self.sent_bytes = 0
        self._head, self._piece = head, piece
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listening.getsockname()[1]}"

    def __enter__(self) -> Says:
        threading.Thread(target=self._serve, daemon=True).start()
        return self

    def __exit__(self, *_exc: object) -> None:
        self._listening.close()

    def _serve(self) -> None:
        with suppress(OSError), self._listening.accept()[0] as sock:
            sock.recv(65536)
            sock.sendall(self._head)
            while self._piece and self.sent_bytes < 256 << 20:
                sock.sendall(self._piece)
                self.sent_bytes += len(self._piece)


@pytest.mark.parametrize("status", [200, 404])
def test_a_chunk_of_less_than_nothing_is_not_all_there_is(status: int) -> None:
    """http.client takes a chunk of -1 bytes for everything until the end of the connection."""
    head = b"HTTP/1.1 %d OK\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n" % status
    with Says(head, b" " * (1 << 20)) as server:
        answer = Client({}, 30.0, 30.0).get(server.url, {})
        if status == 404:
            answer.text()
        else:
            with pytest.raises(SourceError) as caught:
                answer.whole(1000)
            assert "not-http" == caught.value.code
        assert 32 << 20 > server.sent_bytes


def test_a_name_that_no_certificate_has_is_an_error_of_ours() -> None:
    """A redirect may lead anywhere, and a proxy connects to anything."""
    with Says(b"HTTP/1.1 200 OK\r\n\r\n") as proxy, pytest.raises(SourceError) as caught:
        Client({"https_proxy": proxy.url}, 30.0, 30.0).get("https://.example/x", {})

    assert "not-http" == caught.value.code
