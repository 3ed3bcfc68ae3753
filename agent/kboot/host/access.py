"""Who may read this file, and does a running process show a secret?"""

from __future__ import annotations

import os
import re
import stat
from contextlib import suppress
from pathlib import Path

from kboot.values import dataclass

_LIMIT_BYTES = 1 << 20
_ENGINE = b"/kboot-engine.service"
_TOKEN = re.compile(rb"\bhf_[A-Za-z0-9]{30,}\b")


@dataclass(frozen=True, slots=True)
class Access:
    """Permission bits, owner and group of a file, as far as they can be used. kind: "file", "socket", "other"."""

    mode: int
    uid: int
    gid: int
    kind: str

    @property
    def by_everybody(self) -> str:
        """Return what every user of the machine may do: "read", "write", "read and write", or ""."""
        words = [word for bit, word in ((stat.S_IROTH, "read"), (stat.S_IWOTH, "write")) if self.mode & bit]
        return " and ".join(words)


def access_to(path: Path, top: Path = Path("/")) -> Access | None:
    """Return who may get at a file, links followed; None where there is none or it may not be looked at.

    Below a folder that not everybody may enter, nobody else can do anything. top: the root of the tree it is in.
    """
    try:
        found = os.stat(path)
        folders = [p for p in path.parents if p != top and p.is_relative_to(top)]
        closed = not all(os.stat(folder).st_mode & stat.S_IXOTH for folder in folders)
    except OSError:
        return None
    kind = "file" if stat.S_ISREG(found.st_mode) else "socket" if stat.S_ISSOCK(found.st_mode) else "other"
    mode = stat.S_IMODE(found.st_mode)
    return Access(mode & ~0o007 if closed else mode, found.st_uid, found.st_gid, kind)


def processes_that_show_a_token() -> tuple[tuple[int, str], ...]:
    """Return (pid, "command line" or "environment") of processes that show a Hub token where none should be.

    A command line is open to every user. The environment is its user's own; that of an engine's service should have
    none, since whatever runs in it could send it away.
    """
    found = []
    for pid in sorted(int(name) for name in os.listdir("/proc") if name.isdigit()):
        if _holds(pid, "cmdline"):
            found.append((pid, "command line"))
        elif _is_served(pid) and _holds(pid, "environ"):
            found.append((pid, "environment"))
    return tuple(found)


def _holds(pid: int, name: str) -> bool:
    with suppress(OSError), open(f"/proc/{pid}/{name}", "rb", buffering=0) as file:
        return _TOKEN.search(file.read(_LIMIT_BYTES)) is not None
    return False


def _is_served(pid: int) -> bool:
    with suppress(OSError), open(f"/proc/{pid}/cgroup", "rb", buffering=0) as file:
        return _ENGINE in file.read(_LIMIT_BYTES)
    return False
