"""Which processes listen on a TCP port of this machine?"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress

_LISTEN = "0A"
_TABLES = ("/proc/net/tcp", "/proc/net/tcp6")


def listeners(port: int) -> tuple[int, ...]:
    """Return the processes that hold a socket listening there; those whose open files are closed to this user lack.

    The first one is whom to stop: the one that the others have the socket from, as workers have their front end's.
    """
    sockets = {f"socket:[{inode}]" for inode in _inodes(port)}
    if not sockets:
        return ()
    found = {int(name) for name in os.listdir("/proc") if name.isdigit() and sockets & set(_links(name))}
    return tuple(sorted(found, key=lambda pid: (_parent(pid) in found, pid)))


def is_listened(port: int) -> bool:
    """Return whether anybody listens there, of whatever user."""
    return any(True for _ in _inodes(port))


def _inodes(port: int) -> Iterator[str]:
    for table in _TABLES:
        with suppress(OSError), open(table) as file:  # no IPv6
            next(file)
            for line in file:
                _, local, _, state, *rest = line.split()
                if state == _LISTEN and int(local.rpartition(":")[2], 16) == port:
                    yield rest[5]


def _links(pid: str) -> Iterator[str]:
    with suppress(OSError):  # ended, or another user's
        for fd in os.listdir(f"/proc/{pid}/fd"):
            with suppress(OSError):
                yield os.readlink(f"/proc/{pid}/fd/{fd}")


def _parent(pid: int) -> int:
    with suppress(OSError), open(f"/proc/{pid}/stat") as file:
        return int(file.read().rpartition(")")[2].split()[1])
    return 0
