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
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal, TypeVar

from kboot.host.os_errors import explained
from kboot.host.removal import remove_folder
from kboot.values import dataclass

EntryKind = Literal["file", "folder", "link", "other"]

_MAX_LINKS = 40
_ROOT = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_FOLDER = _ROOT | os.O_NOFOLLOW
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

    def folders(
        self, top: str, skip: Callable[[Entry], bool], missed: Callable[[str], None] = lambda _: None
    ) -> Iterator[tuple[int, list[Entry]]]:
        """Yield a folder's descriptor, open until the next is asked for, with what is in it; then those below it.

        Each is opened once, from the one above: a tree costs one step for each folder, and one descriptor, however deep
        it is. missed: told the path of what is there and cannot be looked at.
        """
        place = _Place(self._open)
        waiting = [(top, 0)]
        try:
            while waiting:
                folder, depth = waiting.pop()
                try:
                    fd = place.enter(folder, depth)
                    found = _entries(folder, fd, missed)
                except FileNotFoundError:  # it went away
                    continue
                except OSError:
                    missed(folder)
                    continue
                yield fd, found
                waiting += [(e.path, depth + 1) for e in reversed(found) if e.kind == "folder" and not skip(e)]
        finally:
            place.leave()

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
        """Yield a descriptor of a folder, see _open."""
        fd = self._open(folder)
        try:
            yield fd
        finally:
            os.close(fd)

    def _open(self, folder: str) -> int:
        """Return a descriptor of a folder, walked to without ever leaving the root; one is open at a time."""
        fd = os.open(self.root, _ROOT)
        passed: list[str] = []
        parts = _reversed(folder)
        links = 0
        try:
            while parts:
                name = parts.pop()
                if name == ".":
                    continue
                if name == "..":  # from the root again: this folder's own ".." may lead out, should somebody move it
                    parts += passed[:-1][::-1]
                    fd = self._at_root(fd, passed)
                    continue
                found = os.stat(name, dir_fd=fd, follow_symlinks=False)
                if not stat.S_ISLNK(found.st_mode):
                    fd = _instead(fd, os.open(name, _FOLDER, dir_fd=fd))
                    passed.append(name)
                    continue
                links += 1
                if links > _MAX_LINKS:
                    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(self.root / folder))
                target = os.readlink(name, dir_fd=fd)
                parts += _reversed(target)
                if target.startswith("/"):
                    fd = self._at_root(fd, passed)
        except BaseException:
            os.close(fd)
            raise
        return fd

    def _at_root(self, fd: int, passed: list[str]) -> int:
        passed.clear()
        return _instead(fd, os.open(self.root, _ROOT))


class _Place:
    """Where a walk stands: one open folder, and by what those above it are known.

    It goes up by "..". Where that is not the folder it came from, since somebody moved one, it goes down by its path.
    """

    def __init__(self, open_path: Callable[[str], int]) -> None:
        self._open_path = open_path
        self._fd = -1
        self._known: list[tuple[int, int]] = []

    def enter(self, path: str, depth: int) -> int:
        """Return a descriptor, open until the next call. depth: 0 for the top; then one whose parent was entered.

        Raises:
            OSError: it is not there, or cannot be opened.
        """
        if depth == 0:
            fd = self._open_path(path)
        else:
            above, _, name = path.rpartition("/")
            self._go_up(above, depth)
            fd = os.open(name, _FOLDER, dir_fd=self._fd)
        self._stand_in(fd)
        self._known.append(_identity(fd))
        return fd

    def leave(self) -> None:
        """Close what is open."""
        self._stand_in(-1)

    def _go_up(self, above: str, levels: int) -> None:
        with suppress(OSError):  # one that may be listed and not searched has no ".."
            while len(self._known) > levels and self._is_known():
                self._stand_in(os.open("..", _FOLDER, dir_fd=self._fd))
                self._known.pop()
        if len(self._known) > levels or not self._is_known():
            del self._known[levels:]
            self._stand_in(self._open_path(above))
            self._known[-1] = _identity(self._fd)

    def _is_known(self) -> bool:
        return _identity(self._fd) == self._known[-1]

    def _stand_in(self, fd: int) -> None:
        if self._fd >= 0:
            os.close(self._fd)
        self._fd = fd


def is_same_folder(one: Path, other: Path) -> bool:
    """Return whether two paths are one folder; False where one of them cannot be looked at."""
    with suppress(OSError):
        return os.path.samefile(one, other)
    return False


def _identity(fd: int) -> tuple[int, int]:
    found = os.fstat(fd)
    return found.st_dev, found.st_ino


def _reversed(path: str) -> list[str]:
    return [part for part in path.split("/") if part][::-1]


def _instead(fd: int, other: int) -> int:
    os.close(fd)
    return other


def _entries(folder: str, fd: int, missed: Callable[[str], None]) -> list[Entry]:
    device, found = os.fstat(fd).st_dev, []
    for name in sorted(os.listdir(fd)):
        path = f"{folder}/{name}" if folder else name
        try:
            found.append(_entry(path, fd, name, device))
        except FileNotFoundError:
            continue
        except OSError:
            missed(path)
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
