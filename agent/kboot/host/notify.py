"""How does systemd learn what this process is doing? The sd_notify(3) protocol; silent where nobody listens."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import MutableMapping
from contextlib import suppress

VARIABLES = ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID")
"""What systemd tells a service about them."""

_REPEATED_S = 1.0
"""Patience with a full queue of the service manager, for what the next message says again."""
_ONCE_S = 10.0
"""And for what is said only once."""


class Notifier:
    """Messages to the service manager. Each method returns whether the message left; none raises.

    watchdog_s: how often systemd wants a sign of life at the latest; None when it does not watch this process.
    """

    def __init__(self, address: str, watchdog_s: float | None) -> None:
        self._address = "\0" + address[1:] if address.startswith("@") else address
        self.watchdog_s = watchdog_s

    def ready(self, status: str) -> bool:
        """Start-up, or a reload, is over."""
        return self._send("READY=1", _status(status), timeout_s=_ONCE_S)

    def status(self, text: str) -> bool:
        """Say in one line what is going on (`systemctl status`)."""
        return self._send(_status(text))

    def extend(self, seconds: float) -> bool:
        """Ask that the running start, reload or stop may take until this many seconds from now."""
        return self._send(f"EXTEND_TIMEOUT_USEC={int(seconds * 1e6)}")

    def watchdog(self) -> bool:
        """Give the sign of life that WatchdogSec= waits for."""
        return self._send("WATCHDOG=1")

    def reloading(self, status: str) -> bool:
        """A reload begins; ready() ends it."""
        clock = f"MONOTONIC_USEC={time.monotonic_ns() // 1000}"
        return self._send("RELOADING=1", clock, _status(status), timeout_s=_ONCE_S)

    def stopping(self, status: str) -> bool:
        """The process is about to end by itself or because it was told to."""
        return self._send("STOPPING=1", _status(status), timeout_s=_ONCE_S)

    def _send(self, *lines: str, timeout_s: float = _REPEATED_S) -> bool:
        if not self._address:
            return False
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sock:
            sock.settimeout(timeout_s)
            sock.connect(self._address)  # a socket that is not connected cannot wait for room in the queue
            sock.send("\n".join(lines).encode())
            return True
        return False


def take_notifier(env: MutableMapping[str, str], pid: int) -> Notifier:
    """Return the notifier that `env` describes for process `pid`, and remove its variables from `env`.

    They are removed so that no child speaks to systemd in this process's name or believes that it is watched.
    """
    address, watchdog_usec, watchdog_pid = (env.pop(name, "") for name in VARIABLES)
    watched = watchdog_usec.isdecimal() and int(watchdog_usec) > 0 and watchdog_pid in ("", str(pid))
    return Notifier(
        address if address.startswith(("/", "@")) else "",
        int(watchdog_usec) / 1e6 if watched else None,
    )


def own_notifier() -> Notifier:
    """Return the notifier of this process."""
    return take_notifier(os.environ, os.getpid())


def _status(text: str) -> str:
    return "STATUS=" + " ".join(text.split())  # a newline would begin another assignment
