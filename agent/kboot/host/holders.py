"""Which processes have a file open now, and of how many can this user not tell?"""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from kboot.host.open_files import may_be_open_elsewhere
from kboot.values import dataclass


@dataclass(frozen=True, slots=True)
class Holders:
    """pids: processes that have the file open. unseen: those that may have it, and whose open files are not shown.

    unseen counts processes of the file's owner whose /proc/PID/fd is closed to this user, and is at least 1 where
    another machine may have it open.
    """

    pids: tuple[int, ...]
    unseen: int

    @property
    def none(self) -> bool:
        """Return whether it is certain that nobody has it open."""
        return not self.pids and not self.unseen


def holders(path: Path) -> Holders:
    """Return who has the file open.

    Raises:
        OSError: there is no such file.
    """
    return holders_of((path,))[path]


def holders_of(paths: Iterable[Path]) -> dict[Path, Holders]:
    """Return who has each file open, found by device and inode, so that other mount namespaces are seen as well.

    Raises:
        OSError: one of them does not exist.
    """
    stats = {path: os.stat(path, follow_symlinks=False) for path in paths}
    wanted = {(found.st_dev, found.st_ino) for found in stats.values()}
    open_in: dict[tuple[int, int], list[int]] = {}
    closed: dict[int, int] = {}  # owner → processes that do not show what they have open
    for name in filter(str.isdigit, os.listdir("/proc") if stats else ()):
        with suppress(FileNotFoundError, ProcessLookupError):  # it has ended
            try:
                for held in _open_files(name) & wanted:
                    open_in.setdefault(held, []).append(int(name))
            except PermissionError:
                owner = os.stat(f"/proc/{name}").st_uid
                closed[owner] = closed.get(owner, 0) + 1
    return {
        path: Holders(
            tuple(sorted(open_in.get((found.st_dev, found.st_ino), []))),
            closed.get(found.st_uid, 0) or int(may_be_open_elsewhere(path)),
        )
        for path, found in stats.items()
    }


def _open_files(pid: str) -> set[tuple[int, int]]:
    found = set()
    for fd in os.listdir(f"/proc/{pid}/fd"):
        with suppress(OSError):  # closed just now, or on a file system with rules of its own
            at = os.stat(f"/proc/{pid}/fd/{fd}")
            found.add((at.st_dev, at.st_ino))
    return found
