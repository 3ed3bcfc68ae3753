"""How is a folder removed with all below it, however deep it is, and whoever moves things in it meanwhile?

shutil.rmtree calls itself and holds a descriptor for each folder above; a tree of a thousand folders, one in the other,
ends it. Here folders are moved up to the top one by one, so that two descriptors are enough.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
from contextlib import suppress

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW
_MOST_ROUNDS = 1 << 20  # one for each level; who fills it as fast as it is emptied is not waited for


def remove_folder(name: str, dir_fd: int | None = None) -> None:
    """Remove a folder and all below it, links not followed. name: below dir_fd, when that is given.

    What was begun and did not end leaves all that is left of it below the folder.

    Raises:
        OSError: it is not there, no folder, or something in it cannot be removed.
    """
    top = os.open(name, _FOLDER, dir_fd=dir_fd)
    try:
        for _ in range(_MOST_ROUNDS):
            names = os.listdir(top)
            if not names:
                break
            for each in names:
                with suppress(FileNotFoundError):  # somebody else was faster
                    _take(each, top)
    finally:
        os.close(top)
    os.rmdir(name, dir_fd=dir_fd)


def _take(name: str, top: int) -> None:
    """Remove one thing from the top folder; folders in it come up into the top."""
    if not _is_folder(name, top):
        os.unlink(name, dir_fd=top)
        return
    fd = os.open(name, _FOLDER, dir_fd=top)
    try:
        for each in os.listdir(fd):
            with suppress(FileNotFoundError):
                if not _is_folder(each, fd):
                    os.unlink(each, dir_fd=fd)
                elif not _removed(each, fd):
                    os.rename(each, f".{secrets.token_hex(8)}", src_dir_fd=fd, dst_dir_fd=top)
    finally:
        os.close(fd)
    os.rmdir(name, dir_fd=top)


def _removed(name: str, folder: int) -> bool:
    """Remove a folder if it is empty; return whether it was."""
    try:
        os.rmdir(name, dir_fd=folder)
    except OSError as exc:
        if exc.errno in (errno.ENOTEMPTY, errno.EEXIST):
            return False
        raise
    return True


def _is_folder(name: str, folder: int) -> bool:
    return stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
