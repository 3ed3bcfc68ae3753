"""How is a file changed so that a crash at any instant leaves the old one or the new one, never a torn one?

Functions that change the disk raise KbootError (through explain_os_error); functions that only read raise OSError.
"""

from __future__ import annotations

import errno
import os
import secrets
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Literal

from kboot.host.clock import unix_s
from kboot.host.os_errors import explained
from kboot.host.plain_file import open_plain, replace
from kboot.host.removal import remove_folder
from kboot.values import dataclass

_BY_UUID = "/dev/disk/by-uuid"
_TEMP_PREFIX = ".kboot-"
_TEMP_SUFFIX = ".tmp"
_NO_DIR_FSYNC = frozenset({errno.EINVAL, errno.ENOTSUP, errno.EBADF})  # some network and FUSE file systems
_NO_HARD_LINK = frozenset({errno.EXDEV, errno.EPERM, errno.EMLINK, errno.ENOTSUP, errno.ENOSYS, errno.EACCES})


@dataclass(frozen=True, slots=True)
class Identity:
    """What tells one file's content from another's without reading it; any write changes ctime_ns."""

    dev: int
    inode: int
    size_bytes: int
    mtime_ns: int
    ctime_ns: int


def identity_of(stat: os.stat_result) -> Identity:
    """Return the identity inside a stat result (of a path or an open file)."""
    return Identity(stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns)


def identity(path: Path) -> Identity:
    """Return the identity of the file behind the path, links followed.

    Raises:
        OSError: there is no such file.
    """
    return identity_of(os.stat(path))


def fsync_dir(path: Path) -> None:
    """Make the names in a folder durable; a file system that cannot is taken as it is."""
    with explained("sync the folder", path):
        _fsync_dir(path)


def make_dirs(path: Path, mode: int = 0o755) -> None:
    """Make the folder and its missing parents, each durable before the next; existing ones keep their mode."""
    with explained("make the folder", path):
        _make_dirs(path, mode)


def atomic_write(path: Path, data: bytes, mode: int = 0o644, *, durable: bool = True) -> None:
    """Give `path` the content `data`, durable on return; at every instant it holds the old content or the new.

    mode: exactly this, whatever the umask. The folder must exist. durable: False for what says nothing any more after a
    power cut; then it may be lost in one, or be empty.
    """

    def write(temp: Path) -> None:
        fd = os.open(temp, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        with os.fdopen(fd, "wb") as file:
            os.fchmod(fd, mode)
            file.write(data)
            file.flush()
            if durable:
                os.fsync(fd)

    with explained("write the file", path):
        _replace(path, write, durable=durable)


def replace_link(link: Path, target: str, *, durable: bool = True) -> None:
    """Make `link` a symbolic link to `target`; a link or file of that name is replaced in one step.

    durable: on return; else when fsync_dir() of its folder has returned, which is done once for many links.
    """
    with explained("set the link", link):
        _replace(link, lambda temp: os.symlink(target, temp), durable=durable)


def link_or_copy(source: Path, target: Path) -> Literal["link", "copy"]:
    """Give `target` the content of `source`: a hard link where the file system allows, else a durable copy."""
    with explained("link or copy the file", target):
        try:
            _replace(target, lambda temp: os.link(source, temp))
        except OSError as exc:
            if exc.errno not in _NO_HARD_LINK:
                raise
            _replace(target, lambda temp: _copy(source, temp))
            return "copy"
        return "link"


def rename(source: Path, target: Path) -> None:
    """Give a file on the same file system another name, durable on return; an existing target is replaced."""
    with explained("rename the file", target):
        os.replace(source, target)
        _fsync_dir(target.parent)
        if source.parent != target.parent:
            _fsync_dir(source.parent)


def remove(path: Path) -> None:
    """Remove a file or link; a missing one is fine."""
    with explained("remove the file", path), suppress(FileNotFoundError):
        os.unlink(path)


def remove_tree(path: Path) -> None:
    """Remove a folder and all below it, links not followed; a missing one is fine."""
    with explained("remove the folder", path), suppress(FileNotFoundError):
        remove_folder(str(path))


def read_small(path: Path, limit_bytes: int) -> bytes:
    """Return the file's content.

    Raises:
        OSError: not readable, or no file; errno EFBIG when it is larger than `limit_bytes`.
    """
    with os.fdopen(open_plain(path), "rb") as file:
        data = file.read(limit_bytes + 1)
    if len(data) > limit_bytes:
        raise OSError(errno.EFBIG, f"larger than {limit_bytes} bytes", str(path))
    return data


def list_names(path: Path) -> tuple[str, ...]:
    """Return the sorted names in a folder, temporary files of kboot left out.

    Raises:
        OSError: not a readable folder.
    """
    return tuple(sorted(name for name in os.listdir(path) if not _is_temp(name)))


def file_names(folder: Path) -> tuple[str, ...]:
    """Return the names in one of kboot's folders as list_names does; none where there is no such folder.

    Raises:
        KbootError: it may not be read, which is not the same as empty.
    """
    with explained("read the folder", folder):
        try:
            return list_names(folder)
        except (FileNotFoundError, NotADirectoryError):
            return ()


def exists(path: Path) -> bool:
    """Return whether there is a file or folder.

    Raises:
        KbootError: it cannot be told, a folder above may not be searched.
    """
    with explained("look for the file", path):
        return path.exists()


def sweep_temps(folder: Path, min_age_s: float) -> int:
    """Remove temporary files that a killed kboot left directly in `folder`; return how many.

    min_age_s: younger ones may still be written by another process and stay.
    """
    swept = 0
    with explained("sweep temporary files", folder):
        for entry in os.scandir(folder):
            if _is_temp(entry.name) and unix_s() - entry.stat(follow_symlinks=False).st_mtime >= min_age_s:
                os.unlink(entry.path)
                swept += 1
    return swept


def fs_uuid(path: Path) -> str | None:
    """Return the UUID of the file system that holds the path; None where no block device with one is known."""
    try:
        device = os.stat(path).st_dev
        for name in sorted(os.listdir(_BY_UUID)):
            with suppress(OSError):  # a link to a device that went away
                if os.stat(f"{_BY_UUID}/{name}").st_rdev == device:
                    return name
    except OSError:
        return None
    return None


def _is_temp(name: str) -> bool:
    return name.startswith(_TEMP_PREFIX) and name.endswith(_TEMP_SUFFIX)


def _temp_beside(path: Path) -> Path:
    return path.parent / f"{_TEMP_PREFIX}{secrets.token_hex(6)}{_TEMP_SUFFIX}"


def _replace(path: Path, create: Callable[[Path], None], *, durable: bool = True) -> None:
    temp = _temp_beside(path)
    try:
        create(temp)
        replace(temp, path)
        if durable:
            _fsync_dir(path.parent)
    finally:
        # Gone already after a rename, except one between two links of the same inode, which POSIX makes a no-op.
        with suppress(OSError):
            os.unlink(temp)


def _copy(source: Path, temp: Path) -> None:
    with open(source, "rb") as src, open(temp, "xb") as dst:
        shutil.copyfileobj(src, dst, 1 << 20)
        dst.flush()
        os.fsync(dst.fileno())


def _fsync_dir(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    except OSError as exc:
        if exc.errno not in _NO_DIR_FSYNC:
            raise
    finally:
        os.close(fd)


def _make_dirs(path: Path, mode: int) -> None:
    try:
        _make_dir(path, mode)
    except FileNotFoundError:
        if not os.path.isdir(path.parent):
            _make_dirs(path.parent, mode)
        # Also where the parent is there: another thread or process may have made it just now. A file system that makes
        # no folders, as procfs, says the same again.
        _make_dir(path, mode)


def _make_dir(path: Path, mode: int) -> None:
    try:
        os.mkdir(path, mode)
    except FileExistsError:
        if not os.path.isdir(path):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(path)) from None
        return
    os.chmod(path, mode)  # what the umask took
    _fsync_dir(path.parent)
