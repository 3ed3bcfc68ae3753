"""What lies in a tree that is to become an image, and how is it changed so that no link leads out of it?

The tree may be the whole machine ("/") or a folder that is one machine's root (a mounted image). Every path is walked
from the root's own descriptor, one name at a time; a link is followed inside the tree only, as that machine would.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeVar

from kboot.host.os_errors import explained
from kboot.host.removal import remove_folder

EntryKind = Literal["file", "folder", "link", "other"]

_MAX_LINKS = 40
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW
FILE_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
_TEMP = ".kboot-{}.tmp"
_ZEROS_BYTES = 1 << 20
_BESIDE_DATABASE = ("-journal", "-wal", "-shm")
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Entry:
    """One thing in the tree. path: from its root, without a slash at the beginning.

    device: of the file system that its folder is on; of a folder, its own. Files on an overlay have another one each.
    changed_ns: when it changed last, by the kernel's clock and not by what a program says.
    """

    path: str
    kind: EntryKind
    size_bytes: int
    device: int
    changed_ns: int = 0


class ImageTree:
    """A machine's file tree below `root`. Reading raises OSError, changing KbootError."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def look(self, path: str) -> Entry | None:
        """Return what is there, the last name not followed; None for nothing."""
        with suppress(FileNotFoundError, NotADirectoryError):
            return self._in_parent(path, lambda fd, name: _entry(path, fd, name))
        return None

    def device(self, folder: str = "") -> int:
        """Return the device that a folder is on."""
        with self._opened(folder) as fd:
            return os.fstat(fd).st_dev

    def names(self, folder: str) -> tuple[str, ...]:
        """Return the sorted names in a folder, links to it followed; none where there is no such folder."""
        try:
            with self._opened(folder) as fd:
                return tuple(sorted(os.listdir(fd)))
        except (FileNotFoundError, NotADirectoryError):
            return ()

    def read(self, path: str, limit_bytes: int) -> bytes:
        """Return at most so many bytes of a regular file; the last name is not followed."""

        return self._in_parent(path, lambda fd, name: _beginning(fd, name, limit_bytes))

    @contextmanager
    def database(self, path: str) -> Iterator[Path]:
        """Yield a path by which SQLite opens a database of the tree, while the block lasts.

        Raises:
            OSError: it, or a file that SQLite would open beside it, is a link or no file, and could lead out.
        """
        folder, _, name = path.rpartition("/")
        with self._opened(folder) as fd:
            for each in (name, *(f"{name}{end}" for end in _BESIDE_DATABASE)):
                with suppress(FileNotFoundError):
                    if not stat.S_ISREG(os.stat(each, dir_fd=fd, follow_symlinks=False).st_mode):
                        raise OSError(errno.ELOOP, "a link, or no file", str(self.root / folder / each))
            yield Path(f"/proc/self/fd/{fd}/{name}")

    def link_target(self, path: str) -> str:
        """Return what a link says."""
        return self._in_parent(path, lambda fd, name: os.readlink(name, dir_fd=fd))

    def walk(self, folder: str, skip: Callable[[Entry], bool] = lambda _: False) -> Iterator[Entry]:
        """Yield everything below a folder, itself left out; what is in a folder in the order of names, then below it.

        Links are not followed, other file systems are. skip: folders not to look into. What cannot be read is left out.
        """
        return (entry for _, entries in self.folders(folder, skip) for entry in entries)

    def folders(self, top: str, skip: Callable[[Entry], bool]) -> Iterator[tuple[int, list[Entry]]]:
        """Yield a folder's descriptor, open until the next is asked for, with what is in it; then those below it.

        Each is opened once: looked up from there, a file costs one call and not two for each name above it.
        """
        waiting = [top]
        while waiting:
            found: list[Entry] = []
            folder = waiting.pop()
            with ExitStack() as stack, suppress(OSError):  # it went away, or may not be looked at
                fd = stack.enter_context(self._opened(folder))
                found = _entries(folder, fd)
                yield fd, found
            waiting += [e.path for e in reversed(found) if e.kind == "folder" and not skip(e)]

    def write(self, path: str, data: bytes, mode: int | None = None) -> None:
        """Give a file this content, durable on return; at every instant it holds the old one or the new.

        mode: None keeps that of the file there is, and its owner. The folder must exist.
        """
        with explained("write the file", self.root / path):
            self._in_parent(path, lambda fd, name: _write(fd, name, data, mode))

    def make_link(self, path: str, target: str) -> None:
        """Make a symbolic link; missing folders above it are made. What has the name is replaced."""
        with explained("set the link", self.root / path):
            self._make_parents(path)
            self._in_parent(path, lambda fd, name: _link(fd, name, target))

    def remove(self, path: str, *, wipe: bool = False) -> None:
        """Remove a file, a link or a folder with all below it; nothing there is fine.

        wipe: overwrite regular files of a moderate size first: what is deleted stays readable in a copy of the disk.
        """

        def work(fd: int, name: str) -> None:
            found = os.stat(name, dir_fd=fd, follow_symlinks=False)
            if stat.S_ISDIR(found.st_mode):
                remove_folder(name, fd)
            else:
                if wipe and stat.S_ISREG(found.st_mode) and found.st_nlink == 1:
                    _overwrite(fd, name)
                os.unlink(name, dir_fd=fd)
            os.fsync(fd)

        with explained("remove", self.root / path), suppress(FileNotFoundError, NotADirectoryError):
            self._in_parent(path, work)

    def _make_parents(self, path: str) -> None:
        parts = [p for p in path.split("/") if p][:-1]
        for count in range(1, len(parts) + 1):
            with suppress(FileExistsError):
                self._in_parent("/".join(parts[:count]), lambda fd, name: os.mkdir(name, 0o755, dir_fd=fd))

    def _in_parent(self, path: str, work: Callable[[int, str], _T]) -> _T:
        folder, _, name = path.rstrip("/").rpartition("/")
        if name in ("", ".", ".."):
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), path)
        with self._opened(folder) as fd:
            return work(fd, name)

    @contextmanager
    def _opened(self, folder: str) -> Iterator[int]:
        """Yield a descriptor of a folder, walked to without ever leaving the root."""
        fds = [os.open(self.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)]
        parts = [p for p in folder.split("/") if p][::-1]
        links = 0
        try:
            while parts:
                name = parts.pop()
                if name == "..":
                    if len(fds) > 1:  # above the root is the root
                        os.close(fds.pop())
                    continue
                if name == ".":
                    continue
                found = os.stat(name, dir_fd=fds[-1], follow_symlinks=False)
                if not stat.S_ISLNK(found.st_mode):
                    fds.append(os.open(name, _FOLDER, dir_fd=fds[-1]))
                    continue
                links += 1
                if links > _MAX_LINKS:
                    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(self.root / folder))
                target = os.readlink(name, dir_fd=fds[-1])
                parts += [p for p in target.split("/") if p][::-1]
                while target.startswith("/") and len(fds) > 1:
                    os.close(fds.pop())
            yield fds[-1]
        finally:
            for fd in fds:
                os.close(fd)


def is_same_folder(one: Path, other: Path) -> bool:
    """Return whether two paths are one folder; False where one of them cannot be looked at."""
    with suppress(OSError):
        return os.path.samefile(one, other)
    return False


def _entries(folder: str, fd: int) -> list[Entry]:
    device, found = os.fstat(fd).st_dev, []
    for name in sorted(os.listdir(fd)):
        with suppress(OSError):
            found.append(_entry(f"{folder}/{name}" if folder else name, fd, name, device))
    return found


def _entry(path: str, folder: int, name: str, device: int | None = None) -> Entry:
    found = os.stat(name, dir_fd=folder, follow_symlinks=False)
    kind: EntryKind = "other"
    if stat.S_ISREG(found.st_mode):
        kind = "file"
    elif stat.S_ISDIR(found.st_mode):
        kind = "folder"
    elif stat.S_ISLNK(found.st_mode):
        kind = "link"
    if kind == "folder":
        device = found.st_dev
    elif device is None:
        device = os.fstat(folder).st_dev
    return Entry(path, kind, found.st_size, device, found.st_ctime_ns)


def _beginning(folder: int, name: str, limit_bytes: int) -> bytes:
    with os.fdopen(os.open(name, FILE_FLAGS, dir_fd=folder), "rb", buffering=0) as file:
        return file.read(limit_bytes) or b""


def _write(folder: int, name: str, data: bytes, mode: int | None) -> None:
    temp = _TEMP.format(secrets.token_hex(6))
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
    fd = os.open(temp, flags, 0o600, dir_fd=folder)
    try:
        with os.fdopen(fd, "wb") as file:
            _give_owner(folder, name, fd, mode)
            file.write(data)
            file.flush()
            os.fsync(fd)
        os.replace(temp, name, src_dir_fd=folder, dst_dir_fd=folder)
        os.fsync(folder)
    except BaseException:
        with suppress(OSError):
            os.unlink(temp, dir_fd=folder)
        raise


def _give_owner(folder: int, name: str, fd: int, mode: int | None) -> None:
    there = None
    with suppress(FileNotFoundError):
        there = os.stat(name, dir_fd=folder, follow_symlinks=False)
    if there is None or not stat.S_ISREG(there.st_mode):
        os.fchmod(fd, 0o644 if mode is None else mode)
        return
    own = os.fstat(fd)
    if (there.st_uid, there.st_gid) != (own.st_uid, own.st_gid):
        os.fchown(fd, there.st_uid, there.st_gid)
    os.fchmod(fd, stat.S_IMODE(there.st_mode) if mode is None else mode)


def _link(folder: int, name: str, target: str) -> None:
    temp = _TEMP.format(secrets.token_hex(6))
    os.symlink(target, temp, dir_fd=folder)
    os.replace(temp, name, src_dir_fd=folder, dst_dir_fd=folder)
    os.fsync(folder)


def _overwrite(folder: int, name: str) -> None:
    """Put zeros over a file's bytes where they lie; a file system that writes elsewhere is taken as it is."""
    with suppress(OSError):
        fd = os.open(name, os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW, dir_fd=folder)
        try:
            left = min(os.fstat(fd).st_size, _ZEROS_BYTES)
            while left > 0:
                left -= os.write(fd, bytes(min(left, 1 << 16)))
            os.fsync(fd)
        finally:
            os.close(fd)
