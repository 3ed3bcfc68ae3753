"""What does an errno mean to the person who has to act on it?"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kboot.errors import ActionFailed, DoesNotFit, KbootError


def explain_os_error(exc: OSError, doing: str, path: Path | str) -> KbootError:
    """Return the error an operator can act on; `doing` completes "cannot …" ("write the hand-off record")."""
    where = (str(path),)
    said = os.strerror(exc.errno) if exc.errno else str(exc)
    match exc.errno:
        case errno.ENOSPC:
            return DoesNotFit(
                "disk-full",
                f"cannot {doing}: the file system is full",
                where=where,
                hint=f"free space or inodes: `df -h {path}`, `df -i {path}`" if Path(path).is_absolute() else None,
            )
        case errno.EDQUOT:
            return DoesNotFit(
                "quota-exceeded",
                f"cannot {doing}: the disk quota is used up",
                where=where,
                hint="raise the quota of this user or project, or free space",
            )
        case errno.EACCES | errno.EPERM:
            return ActionFailed(
                "permission-denied",
                f"cannot {doing}: user id {os.geteuid()} may not",
                where=where,
                hint=f"run with sudo or join group kboot; `namei -l {path}` shows who may",
            )
        case errno.EROFS:
            return ActionFailed(
                "read-only-file-system",
                f"cannot {doing}: the file system is mounted read-only",
                where=where,
                hint="remount it writable (a disk error may have made it so: `dmesg`), or name another place",
            )
        case errno.ENOENT | errno.ENOTDIR:
            return ActionFailed("path-missing", f"cannot {doing}: {said}", where=where)
        case errno.EIO | errno.ESTALE:
            return ActionFailed(
                "storage-error",
                f"cannot {doing}: {said}",
                where=where,
                hint="look at the kernel log: `dmesg | tail`",
            )
        case _:
            return ActionFailed("file-operation-failed", f"cannot {doing}: {said}", where=where)


@contextmanager
def explained(doing: str, path: Path | str) -> Iterator[None]:
    """Turn an OSError of the block into the KbootError that explain_os_error gives."""
    try:
        yield
    except OSError as exc:
        raise explain_os_error(exc, doing, path) from exc
