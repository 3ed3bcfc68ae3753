"""The receiving end of sd_notify on a socket of its own, as the service manager has one."""

from __future__ import annotations

import os
import socket
import tempfile
from collections.abc import Callable
from pathlib import Path

DEADLINE_S = 60.0


class ServiceManager:
    """Collects what a service tells. Use as a context manager; give `env` to the service."""

    def __init__(self, watchdog_s: float | None = None) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="kboot-notify-")
        self._path = str(Path(self._folder.name) / "notify")
        self._watchdog_s = watchdog_s
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.settimeout(DEADLINE_S)
        self._socket.bind(self._path)
        self.messages: list[dict[str, str]] = []

    @property
    def env(self) -> dict[str, str]:
        """Return the environment a service is started with."""
        env = {**os.environ, "NOTIFY_SOCKET": self._path}
        if self._watchdog_s is not None:
            env["WATCHDOG_USEC"] = str(int(self._watchdog_s * 1e6))
        return env

    def receive(self) -> dict[str, str]:
        """Return the next message; fails when none comes for DEADLINE_S."""
        text = self._socket.recv(65536).decode()
        message = dict(line.split("=", 1) for line in text.split("\n") if line)
        self.messages.append(message)
        return message

    def wait_for(self, wanted: Callable[[dict[str, str]], bool]) -> dict[str, str]:
        """Return the first message from now on that is wanted."""
        while not wanted(message := self.receive()):
            pass
        return message

    def wait_for_key(self, key: str) -> dict[str, str]:
        """Return the first message from now on that assigns `key`."""
        return self.wait_for(lambda message: key in message)

    def falls_silent(self, for_s: float) -> bool:
        """Return whether the messages stop: none for `for_s`, at the latest after DEADLINE_S of reading."""
        self._socket.settimeout(for_s)
        try:
            for _ in range(int(DEADLINE_S / for_s) * 100):
                self.receive()
        except TimeoutError:
            return True
        finally:
            self._socket.settimeout(DEADLINE_S)
        return False

    def __enter__(self) -> ServiceManager:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()
        self._folder.cleanup()
