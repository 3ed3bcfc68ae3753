"""How is a connection read by http.client so that the head of an answer is whole in time, however slowly it comes?

A timeout of a socket begins anew with every byte: a server that gives one every moment would be listened to for ever.
"""

from __future__ import annotations

import io
import math
import socket
from typing import TYPE_CHECKING

from kboot.host.clock import monotonic_s
from kboot.sources.tls_stream import TlsStream

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer


class Spoken:
    """A connection, as far as http.client needs a socket.

    It stays open whatever http.client closes: after an answer that is the last of a connection http.client closes what
    it takes for the socket, and only then is the body read.
    """

    def __init__(self, sock: socket.socket | TlsStream) -> None:
        self.sock = sock
        self._until_s: float | None = None
        self._silence_s = math.inf

    def whole_within(self, seconds: float | None, silence_s: float = math.inf) -> None:
        """Let everything that is read from now on be there after so many seconds; None: the socket's own timeout.

        silence_s: the longest wait for a byte.
        """
        self._until_s = None if seconds is None else monotonic_s() + seconds
        self._silence_s = silence_s

    def sendall(self, data: bytes) -> None:
        """Send all of it."""
        self.sock.sendall(data)

    def makefile(self, _mode: str) -> io.BufferedReader:
        """Return a reader."""
        return io.BufferedReader(_Reader(self))

    def recv_into(self, buffer: WriteableBuffer) -> int:
        """Put the next bytes into the buffer; 0 at the end."""
        if self._until_s is not None:
            left_s = self._until_s - monotonic_s()
            if left_s <= 0:
                raise TimeoutError("the answer is not whole in time")
            self.sock.settimeout(min(left_s, self._silence_s))
        return self.sock.recv_into(buffer)

    def close(self) -> None:
        """Leave it open."""


class _Reader(io.RawIOBase):
    def __init__(self, spoken: Spoken) -> None:
        self._spoken = spoken

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        return self._spoken.recv_into(buffer)
