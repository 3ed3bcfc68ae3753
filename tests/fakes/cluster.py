"""Hosts of a network of their own: network namespaces behind one switch, with links that can be limited and cut.

Nothing of it is seen from outside: the switch is in a namespace as well. Needs root, iproute2 and a kernel with tbf.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

_CLONE_NEWNET = 0x40000000
_NAMED = Path("/run/netns")
_T = TypeVar("_T")


def why_not() -> str:
    """Return why no cluster can be made here; empty when it can."""
    if os.geteuid() != 0:
        return "not root"
    missing = [name for name in ("ip", "tc") if shutil.which(name) is None]
    if missing:
        return f"{', '.join(missing)} not installed (iproute2)"
    probe = f"kbprobe{os.getpid()}"
    if subprocess.run(["ip", "netns", "add", probe], capture_output=True, check=False).returncode:
        return "no network namespaces"
    try:
        limited = subprocess.run(
            ["ip", "netns", "exec", probe, "tc", *_tbf("lo", 1)], capture_output=True, text=True, check=False
        )
        return "" if limited.returncode == 0 else f"no tbf: {limited.stderr.strip()}"
    finally:
        subprocess.run(["ip", "netns", "del", probe], capture_output=True, check=False)


def _tbf(device: str, mbit: int) -> list[str]:
    return f"qdisc replace dev {device} root tbf rate {mbit}mbit burst 64k latency 100ms".split()


class Cluster:
    """So many hosts: number 0 is for an origin, the others for nodes. A context manager."""

    def __init__(self, hosts: int) -> None:
        self._tag = f"kb{os.getpid()}"
        self._hosts = hosts
        self._processes: list[subprocess.Popen[str]] = []

    def address(self, host: int) -> str:
        """Return a host's address."""
        return f"10.77.0.{host + 1}"

    def __enter__(self) -> Cluster:
        self._remove()  # what an earlier run of this process id left
        self._ip("netns", "add", self._switch)
        self._ip("-n", self._switch, "link", "add", "sw", "type", "bridge")
        self._ip("-n", self._switch, "link", "set", "sw", "up")
        for host in range(self._hosts):
            name, port = self._name(host), f"p{host}"
            self._ip("netns", "add", name)
            self._ip(
                *("link", "add", "eth0", "netns", name, "type", "veth", "peer", "name", port, "netns", self._switch)
            )
            self._ip("-n", self._switch, "link", "set", port, "master", "sw", "up")
            self._ip("-n", name, "addr", "add", f"{self.address(host)}/24", "dev", "eth0")
            self._ip("-n", name, "link", "set", "lo", "up")
            self._ip("-n", name, "link", "set", "eth0", "up")
        return self

    def __exit__(self, *_exc: object) -> None:
        for process in self._processes:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, 9)
            process.communicate()
        self._remove()

    def namespace(self, host: int) -> Path:
        """Return the file of a host's network namespace."""
        return _NAMED / self._name(host)

    def inside(self, host: int) -> tuple[str, ...]:
        """Return the words that run a program on a host."""
        return ("ip", "netns", "exec", self._name(host))

    def start(self, host: int, argv: Sequence[str], env: Mapping[str, str]) -> subprocess.Popen[str]:
        """Start a program on a host; what still runs at the end is killed."""
        process = subprocess.Popen(
            [*self.inside(host), *argv],
            env=dict(env),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self._processes.append(process)
        return process

    def on(self, host: int, work: Callable[[], _T]) -> _T:
        """Do something in this process as on a host: sockets that it opens there stay there."""
        done: list[_T] = []

        def run() -> None:
            libc = ctypes.CDLL(None, use_errno=True)
            with open(_NAMED / self._name(host)) as namespace:
                if libc.setns(namespace.fileno(), _CLONE_NEWNET):
                    raise OSError(ctypes.get_errno(), "setns")
            done.append(work())

        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
        return done[0]

    def limit(self, host: int, mbit: int) -> None:
        """Limit what a host sends and receives."""
        subprocess.run(
            ["ip", "netns", "exec", self._name(host), "tc", *_tbf("eth0", mbit)], check=True, capture_output=True
        )
        subprocess.run(
            ["ip", "netns", "exec", self._switch, "tc", *_tbf(f"p{host}", mbit)], check=True, capture_output=True
        )

    def cut(self, host: int) -> None:
        """Pull a host's cable."""
        self._ip("-n", self._switch, "link", "set", f"p{host}", "down")

    def join(self, host: int) -> None:
        """Plug it in again."""
        self._ip("-n", self._switch, "link", "set", f"p{host}", "up")

    @property
    def _switch(self) -> str:
        return f"{self._tag}-sw"

    def _name(self, host: int) -> str:
        return f"{self._tag}-{host}"

    def _ip(self, *words: str) -> None:
        done = subprocess.run(["ip", *words], capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"ip {' '.join(words)}: {done.stderr}"

    def _remove(self) -> None:
        for name in (*(self._name(host) for host in range(self._hosts)), self._switch):
            if (_NAMED / name).exists():
                subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)
