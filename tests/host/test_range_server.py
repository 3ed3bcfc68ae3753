"""Small documents and parts of files for other nodes, on one address and within bounds."""

from __future__ import annotations

import http.client
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from kboot.errors import ActionFailed
from kboot.host.range_server import Asked, Part, RangeServer, Reply, address_to

CONTENT = bytes(range(256)) * 20_000


@contextmanager
def serving(answer: Callable[[Asked], Reply], **bounds: Any) -> Iterator[RangeServer]:
    server = RangeServer("127.0.0.1", 0, answer, **bounds)
    try:
        yield server
    finally:
        server.close()


def get(server: RangeServer, target: str = "/x", method: str = "GET", body: bytes | None = None) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection(server.address, server.port, timeout=30)
    connection.request(method, target, body=body)
    response = connection.getresponse()
    found = response.status, response.read()
    connection.close()
    return found


def test_a_request_is_answered_with_what_it_asked() -> None:
    """Method, target, body and the client's address reach the answer."""

    def answer(asked: Asked) -> Reply:
        return Reply(200, {}, f"{asked.method} {asked.target} {asked.body.decode()} {asked.client}".encode())

    with serving(answer) as server:
        assert (200, b"GET /a?b=c  127.0.0.1") == get(server, "/a?b=c")
        assert (200, b"POST /a hello 127.0.0.1") == get(server, "/a", "POST", b"hello")


def test_a_part_of_a_file_is_sent_and_the_connection_kept(tmp_path: Path) -> None:
    """Two parts over one connection, each with its own length; every byte was announced to the pace."""
    file = tmp_path / "blob"
    file.write_bytes(CONTENT)
    paced: list[int] = []
    part = Part((tmp_path / "gone", file), 5, 3_000_005)
    server = RangeServer("127.0.0.1", 0, lambda _: Reply(206, {}, part=part), paced.append)
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
    for _ in range(2):
        connection.request("GET", "/x")
        assert CONTENT[5:3_000_005] == connection.getresponse().read()
    connection.close()
    server.close()

    assert 6_000_000 == sum(paced)


@pytest.mark.parametrize("kind", ["missing", "folder", "short"])
def test_a_part_that_is_not_there_ends_the_connection(tmp_path: Path, kind: str) -> None:
    """No byte comes in place of one that cannot be had."""
    if kind == "folder":
        (tmp_path / "x").mkdir()
    elif kind == "short":
        (tmp_path / "x").write_bytes(b"123")
    with (
        serving(lambda _: Reply(206, {}, part=Part((tmp_path / "x",), 0, 4))) as server,
        pytest.raises((http.client.HTTPException, ConnectionError)),
    ):
        get(server)


def test_clients_beyond_the_bound_are_turned_away() -> None:
    """One that holds a connection without asking keeps a place; the next is cut off, not queued."""
    with serving(lambda _: Reply(200), at_once=1) as server:
        first = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
        first.request("GET", "/")
        assert b"" == first.getresponse().read()
        with pytest.raises((http.client.HTTPException, ConnectionError)):
            get(server)
        first.close()


def test_a_body_that_is_too_large_is_refused() -> None:
    """Nobody fills this node's memory."""
    with (
        serving(lambda _: Reply(200)) as server,
        socket.create_connection(("127.0.0.1", server.port), timeout=30) as sock,
    ):
        sock.sendall(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2000000\r\n\r\n")
        assert sock.recv(100).startswith(b"HTTP/1.1 413 ")


def test_a_head_that_does_not_end_is_cut_off() -> None:
    """A megabyte of headers from a stranger is not kept; there is no answer to it."""
    with (
        serving(lambda _: Reply(200)) as server,
        socket.create_connection(("127.0.0.1", server.port), timeout=30) as sock,
    ):
        with suppress(ConnectionError):
            sock.sendall(b"GET / HTTP/1.1\r\n" + b"X: " + b"x" * 60_000 + b"\r\n")
            for _ in range(20):
                sock.sendall(b"X: " + b"x" * 60_000 + b"\r\n")
        found = b""
        with suppress(ConnectionError):
            found = sock.recv(100)

        assert b"" == found


def test_a_request_that_comes_a_byte_at_a_time_is_cut_off() -> None:
    """Whoever keeps on sending keeps no place for it."""
    with (
        serving(lambda _: Reply(200), whole_within_s=0.2) as server,
        socket.create_connection(("127.0.0.1", server.port)) as sock,
    ):
        sock.settimeout(0.01)
        found = b"?"
        with suppress(ConnectionError):
            while found:
                sock.sendall(b"G")
                with suppress(TimeoutError):
                    found = sock.recv(1)

        assert found in (b"", b"?")


@pytest.mark.parametrize("length", ["-1", "\xb2", "9" * 5000, "1 1"])
def test_a_length_that_is_none_is_refused(length: str) -> None:
    """Some digits are no number to Python, and some numbers are too long for it."""
    with (
        serving(lambda _: Reply(200)) as server,
        socket.create_connection(("127.0.0.1", server.port), timeout=30) as sock,
    ):
        sock.sendall(f"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n\r\n".encode("latin-1"))
        assert sock.recv(100).startswith(b"HTTP/1.1 413 ")


def test_strangers_make_room_for_whoever_comes() -> None:
    """Connections that prove nothing cannot keep the other nodes out; one that is known keeps its place."""
    with serving(lambda asked: Reply(200 if asked.target == "/ours" else 401), at_once=3) as server:
        ours = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
        ours.request("GET", "/ours")
        assert b"" == ours.getresponse().read()
        strangers = [socket.create_connection(("127.0.0.1", server.port), timeout=30) for _ in range(12)]
        strangers[-1].sendall(b"GET /theirs HTTP/1.1\r\nHost: x\r\n\r\n")
        assert strangers[-1].recv(100).startswith(b"HTTP/1.1 401 ")

        assert (200, b"") == get(server, "/ours")
        ours.request("GET", "/ours")
        assert 200 == ours.getresponse().status
        ours.close()
        for sock in strangers:
            sock.close()


def test_a_port_that_is_taken_is_said() -> None:
    """The error names the address."""
    with serving(lambda _: Reply(200)) as server, pytest.raises(ActionFailed) as caught:
        RangeServer("127.0.0.1", server.port, lambda _: Reply(200))

    assert (f"127.0.0.1:{server.port}",) == caught.value.where


def test_a_closed_server_cuts_what_it_sends(tmp_path: Path) -> None:
    """close() returns although a client reads nothing of a long answer."""
    file = tmp_path / "blob"
    with file.open("wb") as out:
        out.truncate(1 << 30)
    server = RangeServer("127.0.0.1", 0, lambda _: Reply(206, {}, part=Part((file,), 0, 1 << 30)))
    with socket.create_connection(("127.0.0.1", server.port), timeout=30) as sock:
        sock.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        assert sock.recv(10)
        server.close()
        with suppress(ConnectionError):
            while sock.recv(1 << 20):
                pass  # what was in the buffers comes, then the end


def test_the_address_on_the_way_to_a_host() -> None:
    """Loopback leads to loopback; a name that is none leads nowhere."""
    assert "127.0.0.1" == address_to("127.0.0.1", 7417)
    assert "" == address_to("a..b", 7417)
