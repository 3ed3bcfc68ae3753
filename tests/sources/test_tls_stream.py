"""TLS in large pieces, against the ssl module's own sockets on loopback."""

from __future__ import annotations

import os
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import pytest

from fakes.hub import TLS
from kboot.sources.tls_stream import TlsStream

DATA = os.urandom(1_000_003)  # many records, and no whole number of them
WAIT_S = 60.0


@contextmanager
def talking_to(serve: Callable[[ssl.SSLSocket], None], host: str = "localhost") -> Iterator[TlsStream]:
    """Connect to a server that does one thing and then ends."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(TLS / "server.pem", TLS / "server.key")
    listener = socket.create_server(("127.0.0.1", 0))

    def run() -> None:
        bare, _ = listener.accept()
        # What goes wrong is the client's to tell.
        with bare, suppress(OSError), context.wrap_socket(bare, server_side=True) as tls:
            serve(tls)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    sock = socket.create_connection(listener.getsockname(), timeout=WAIT_S)
    try:
        yield TlsStream(sock, ssl.create_default_context(cafile=TLS / "ca.pem"), host)
    finally:
        sock.close()
        thread.join(WAIT_S)
        listener.close()


def all_of(stream: TlsStream) -> bytes:
    got, buffer = b"", memoryview(bytearray(300_000))
    while n := stream.fill(buffer, WAIT_S):
        got += bytes(buffer[:n])
    return got


def test_a_buffer_is_filled_across_records() -> None:
    """Larger than a record, larger than a piece; every byte in its place."""
    with talking_to(lambda tls: tls.sendall(DATA)) as stream:
        buffer = memoryview(bytearray(700_000))

        assert 700_000 == stream.fill(buffer, WAIT_S)
        assert DATA[:700_000] == bytes(buffer)
        assert DATA[700_000:] == all_of(stream)


def test_an_end_that_was_announced_and_one_that_was_not_read_alike() -> None:
    """Whoever reads knows how many bytes there must be."""

    def announce(tls: ssl.SSLSocket) -> None:
        tls.sendall(DATA)
        tls.unwrap()

    with talking_to(announce) as stream:
        assert DATA == all_of(stream)
    with talking_to(lambda tls: tls.sendall(DATA)) as stream:
        assert DATA == all_of(stream)


def test_what_came_before_a_silence_is_given_first() -> None:
    """Then the silence is told."""
    over = threading.Event()

    def half(tls: ssl.SSLSocket) -> None:
        tls.sendall(b"half")
        over.wait(WAIT_S)

    with talking_to(half) as stream:
        buffer = memoryview(bytearray(8))
        first = stream.recv_into(buffer)
        stream.settimeout(0.01)
        with pytest.raises(TimeoutError):
            stream.fill(buffer[first:], WAIT_S)
        over.set()

    assert b"half" == bytes(buffer[:first])


def test_all_that_is_sent_arrives() -> None:
    """Also where it is more than the connection takes at once."""
    got: list[bytes] = []

    def listen(tls: ssl.SSLSocket) -> None:
        while sum(map(len, got)) < len(DATA) and (data := tls.recv(65536)):
            got.append(data)

    with talking_to(listen) as stream:
        stream.sendall(DATA)
        all_of(stream)

    assert DATA == b"".join(got)


def test_a_certificate_for_another_host_is_refused() -> None:
    """Before a byte of a question is sent."""
    got: list[bytes] = []
    with pytest.raises(ssl.SSLCertVerificationError), talking_to(lambda tls: got.append(tls.recv(1)), "example.org"):
        pass

    assert [] == [data for data in got if data]


def test_a_handshake_that_comes_in_drops_is_left() -> None:
    """A byte every moment is no sign of life: the whole of it must be there in time."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def drip() -> None:
            bare, _ = listener.accept()
            with bare, suppress(ConnectionError):
                bare.sendall(b"\x16\x03\x03\x40\x00")  # a record of 16 KiB is announced
                bare.settimeout(0.05)
                while True:
                    bare.sendall(b"x")
                    with suppress(TimeoutError):
                        if not bare.recv(65536):
                            return

        threading.Thread(target=drip, daemon=True).start()
        with socket.create_connection(listener.getsockname(), timeout=0.5) as sock, pytest.raises(TimeoutError):
            TlsStream(sock, ssl.create_default_context(cafile=TLS / "ca.pem"), "localhost")
