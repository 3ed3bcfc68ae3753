"""What lies in a folder, down to every file, and what does one look at each cost?"""

from __future__ import annotations

import ctypes
import os
import stat
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from kboot.host.os_errors import explained
from kboot.values import dataclass

_KIND = 0o170000
_libc = ctypes.CDLL(None, use_errno=True)


class TreeEntry(NamedTuple):
    """A file or folder; path: relative to the top, with slashes. A tuple, since there are tens of thousands."""

    path: str
    size_bytes: int
    mtime_ns: int
    mode: int
    uid: int
    gid: int


@dataclass(frozen=True, slots=True)
class Tree:
    """Everything below a folder, in no order. others: links, sockets. whole: False where a limit was met."""

    files: list[TreeEntry]
    folders: list[TreeEntry]
    others: list[TreeEntry]
    whole: bool

    @property
    def size_bytes(self) -> int:
        """Sum of the files."""
        return sum(f.size_bytes for f in self.files)


def read_tree(top: Path, limit: int = 1_000_000, skip: Collection[str] = ()) -> Tree:
    """Return what is below `top`, itself left out; links are not followed, other file systems are.

    One stat for each entry, nothing is opened. What goes away meanwhile is left out; a folder that cannot be read is
    one without content. skip: names directly in `top` to leave out. limit: entries after which the walk ends.
    """
    found = Tree([], [], [], whole=True)
    waiting = [""]
    count = 0
    while waiting:
        below = waiting.pop()
        entries = _read_folder(f"{top}/{below}", below, skip if not below else ())
        count += len(entries)
        for row in entries:
            kind = row[3] & _KIND
            if kind == stat.S_IFREG:
                found.files.append(row)
            elif kind == stat.S_IFDIR:
                found.folders.append(row)
                waiting.append(f"{row[0]}/")
            else:
                found.others.append(row)
        if count >= limit:
            return replace(found, whole=not waiting)
    return found


def _read_folder(folder: str, below: str, skip: Collection[str]) -> list[TreeEntry]:
    """Return what is directly in a folder. Looked up from an open folder: each stat is then one step, not ten."""
    rows = []
    try:
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return []
    try:
        with os.scandir(fd) as entries:
            for entry in entries:
                name = entry.name
                if name in skip:
                    continue
                try:
                    s = entry.stat(follow_symlinks=False)
                except OSError:
                    continue
                rows.append(TreeEntry(below + name, s.st_size, s.st_mtime_ns, s.st_mode, s.st_uid, s.st_gid))
    except OSError:  # it went away while it was read
        pass
    finally:
        os.close(fd)
    return rows


def read_head(path: Path, size_bytes: int) -> bytes:
    """Return the first bytes of a file.

    Raises:
        OSError: not readable.
    """
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        return os.read(fd, size_bytes)
    finally:
        os.close(fd)


def sync_file_system(folder: Path) -> None:
    """Make everything written to the file system of a folder durable, in one call instead of one for each file."""
    with explained("flush the file system", folder):
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            if _libc.syncfs(fd):
                raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        finally:
            os.close(fd)
