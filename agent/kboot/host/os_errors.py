"""What does an errno mean to the person who has to act on it?"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kboot.errors import ActionFailed, DoesNotFit, KbootError

_DAMAGED = frozenset(
    {errno.EIO, errno.ESTALE, errno.EUCLEAN, errno.EBADMSG, errno.ENODATA, errno.ENXIO, errno.EREMOTEIO}
)
_GONE = frozenset({errno.ENOTCONN, errno.ECONNABORTED, errno.ESHUTDOWN, errno.EHOSTDOWN, errno.ETIMEDOUT, errno.ENODEV})
_CANNOT = frozenset({errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP})


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
        case errno.ENOENT | errno.ENOTDIR | errno.EISDIR | errno.ELOOP:
            return ActionFailed(
                "path-missing",
                f"cannot {doing}: {said}",
                where=where,
                hint=f"`namei -l {path}` shows each part: a link may lead to a disk that is not mounted, or something "
                "else have the name",
            )
        case number if number in _DAMAGED:
            return ActionFailed(
                "storage-error",
                f"cannot {doing}: {said}",
                where=where,
                hint="look at the kernel log: `dmesg | tail`; a damaged file system needs fsck, a stale mount umount",
            )
        case number if number in _GONE:
            return ActionFailed(
                "mount-gone",
                f"cannot {doing}: the server or program behind this mount is gone ({said})",
                where=where,
                hint=f"`findmnt -T {path}` shows the mount: `umount -l` it and mount it again",
            )
        case number if number in _CANNOT:
            return ActionFailed(
                "not-supported-there",
                f"cannot {doing}: this file system does not do that ({said})",
                where=where,
                hint="put it on a local disk (state_dir in kboot.toml); locks need Lustre's mount option `flock`, "
                "NFS's lock service",
            )
        case errno.EFBIG:
            return ActionFailed(
                "file-too-large",
                f"cannot {doing}: {said}",
                where=where,
                hint="this file system takes no file of that size (FAT: 4 GiB), or `ulimit -f` does not",
            )
        case errno.EMFILE | errno.ENFILE:
            return ActionFailed(
                "too-many-open-files",
                f"cannot {doing}: {said}",
                where=where,
                hint="raise the limit: LimitNOFILE= of the unit, `ulimit -n`, or fs.file-max of the machine",
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
