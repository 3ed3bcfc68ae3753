"""What is asked of this process? Signals, requests on a local socket and wake-ups from its threads, in one wait."""

from __future__ import annotations

import json
import os
import selectors
import signal
import socket
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from kboot.errors import ActionFailed
from kboot.host.os_errors import explain_os_error
from kboot.values import dataclass

_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_MAX_CLIENTS = 16
_MAX_REQUEST_BYTES = 64 * 1024
_MAX_ANSWER_BYTES = 16 * 1024 * 1024
_REPLY_TIMEOUT_S = 1.0


@dataclass(frozen=True, slots=True)
class Signalled:
    """A signal came: "SIGTERM", "SIGINT" or "SIGHUP"."""

    name: str


@dataclass(frozen=True, slots=True)
class Asked:
    """A client sent one request. reply: sends one JSON document back; a client that went away is no error."""

    request: Mapping[str, Any]
    reply: Callable[[Mapping[str, Any]], None]


@dataclass(frozen=True, slots=True)
class Woken:
    """A thread of this process called wake()."""


Message = Signalled | Asked | Woken


class Inbox:
    """Everything a long-running process reacts to. Made and used in the main thread; wake() from any.

    A client sends one JSON object per line and gets one JSON object per line back.
    """

    def __init__(self, path: Path) -> None:
        """Listen on `path` (mode 0660, the folder says who gets near it); a socket left by a dead process is replaced.

        Raises:
            ActionFailed: the socket cannot be made.
        """
        self._path = path
        self._clients: dict[socket.socket, bytearray] = {}
        self._selector = selectors.DefaultSelector()
        self._server = _listen(path)
        self._wake_read, self._wake_write = socket.socketpair()
        for sock in (self._server, self._wake_read, self._wake_write):
            sock.setblocking(False)
        self._selector.register(self._server, selectors.EVENT_READ)
        self._selector.register(self._wake_read, selectors.EVENT_READ)
        self._old_fd = signal.set_wakeup_fd(self._wake_write.fileno(), warn_on_full_buffer=False)
        self._old_handlers = {number: signal.signal(number, _ignore) for number in _SIGNALS}

    def wait(self, timeout_s: float) -> tuple[Message, ...]:
        """Return what came, waiting for the first message at most timeout_s; empty when nothing did."""
        messages: list[Message] = []
        for key, _ in self._selector.select(timeout_s):
            if key.fileobj is self._server:
                self._accept()
            elif key.fileobj is self._wake_read:
                messages += _wakes(self._wake_read)
            elif isinstance(key.fileobj, socket.socket):
                messages += self._read(key.fileobj)
        return tuple(messages)

    def wake(self) -> None:
        """Make wait() return."""
        with suppress(OSError):  # full: a wake-up is on its way already; closed: nobody waits
            self._wake_write.send(b"\0")

    def close(self) -> None:
        """Stop listening and put the signal handlers back."""
        for number, handler in self._old_handlers.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._old_fd)
        for client in list(self._clients):
            self._drop(client)
        with suppress(OSError):
            os.unlink(self._path)
        self._selector.close()
        for sock in (self._server, self._wake_read, self._wake_write):
            sock.close()

    def _accept(self) -> None:
        with suppress(OSError):
            client, _ = self._server.accept()
            client.setblocking(False)
            if len(self._clients) >= _MAX_CLIENTS:
                self._drop(next(iter(self._clients)))  # the oldest: one that never speaks must not keep others out
            self._clients[client] = bytearray()
            self._selector.register(client, selectors.EVENT_READ)

    def _read(self, client: socket.socket) -> list[Message]:
        if client not in self._clients:
            return []
        try:
            data = client.recv(_MAX_REQUEST_BYTES)
        except OSError:
            data = b""
        buffer = self._clients[client]
        buffer += data
        if not data or len(buffer) > _MAX_REQUEST_BYTES:
            self._drop(client)
            return []
        *lines, rest = bytes(buffer).split(b"\n")
        self._clients[client] = bytearray(rest)
        return [Asked(_request(line), lambda answer: self._reply(client, answer)) for line in lines if line.strip()]

    def _reply(self, client: socket.socket, answer: Mapping[str, Any]) -> None:
        if client not in self._clients:
            return
        try:
            client.settimeout(_REPLY_TIMEOUT_S)
            client.sendall(json.dumps(answer).encode() + b"\n")
            client.setblocking(False)
        except OSError:
            self._drop(client)

    def _drop(self, client: socket.socket) -> None:
        del self._clients[client]
        self._selector.unregister(client)
        client.close()


def ask(path: Path, request: Mapping[str, Any], timeout_s: float) -> dict[str, Any]:
    """Send one request to the process that listens on `path` and return its answer.

    Raises:
        ActionFailed: code "daemon-not-running" when nobody listens, "daemon-silent" when no answer came in time.
    """
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
            sock.settimeout(timeout_s)
            sock.connect(str(path))
            sock.sendall(json.dumps(request).encode() + b"\n")
            with sock.makefile("rb") as stream:
                answer = json.loads(stream.readline(_MAX_ANSWER_BYTES))
    except (FileNotFoundError, ConnectionRefusedError) as exc:
        raise ActionFailed(
            "daemon-not-running",
            "the daemon does not listen on its socket",
            where=(str(path),),
            hint="start it: `systemctl start kboot`, and see `journalctl -u kboot`",
        ) from exc
    except (TimeoutError, ValueError) as exc:
        raise ActionFailed(
            "daemon-silent",
            f"the daemon gave no answer within {timeout_s:g} s",
            where=(str(path),),
            hint="see `journalctl -u kboot`; systemd restarts a daemon that hangs",
        ) from exc
    except OSError as exc:
        raise explain_os_error(exc, "ask the daemon", path) from exc
    return dict(answer)


def _listen(path: Path) -> socket.socket:
    server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    try:
        with suppress(FileNotFoundError):
            os.unlink(path)
        server.bind(str(path))
        os.chmod(path, 0o660)
        server.listen(_MAX_CLIENTS)
    except OSError as exc:
        server.close()
        raise explain_os_error(exc, "listen on the status socket", path) from exc
    return server


def _wakes(sock: socket.socket) -> list[Message]:
    """Zero bytes are wake-ups, others the numbers of signals that Python wrote."""
    try:
        numbers = sock.recv(4096)
    except OSError:
        return []
    signals: list[Message] = [Signalled(signal.Signals(n).name) for n in numbers if n in _SIGNALS]
    return signals + ([Woken()] if 0 in numbers else [])


def _request(line: bytes) -> dict[str, Any]:
    """Anything that is not a JSON object becomes an empty request, which the daemon answers with an error."""
    try:
        request = json.loads(line)
    except ValueError:
        return {}
    return request if isinstance(request, dict) else {}


def _ignore(_number: int, _frame: object) -> None:
    """Exists so that the signal is caught; the wake-up descriptor carries it."""
