"""Which files does a process hold open, as far as this user can see?"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

_SHARED = ("nfs", "cifs", "smb", "lustre", "ceph", "gpfs", "beegfs", "wekafs", "glusterfs", "9p", "virtiofs", "fuse.")


def open_in(folder: Path) -> frozenset[str]:
    """Return the names of files directly in `folder` that a process of this machine has open.

    Processes of other users are seen by root only; those in other PID namespaces and on other hosts not at all.
    """
    prefix = os.path.realpath(folder) + "/"
    found = set()
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with suppress(OSError):  # it ended, or it is another user's
            for fd in os.listdir(f"/proc/{pid}/fd"):
                with suppress(OSError):
                    target = os.readlink(f"/proc/{pid}/fd/{fd}")
                    if target.startswith(prefix):
                        found.add(target[len(prefix) :])
    return frozenset(found)


def may_be_open_elsewhere(path: Path) -> bool:
    """Return whether a process that `open_in` cannot see may hold the file: another user's, or another host's."""
    stat = os.stat(path)
    return os.geteuid() not in (0, stat.st_uid) or _fs_type(stat.st_dev).startswith(_SHARED)


def _fs_type(device: int) -> str:
    wanted = f"{os.major(device)}:{os.minor(device)}"
    with suppress(OSError), open("/proc/self/mountinfo", encoding="utf-8", errors="replace") as file:
        for line in file:
            if line.split(" ", 3)[2] == wanted:
                return line.partition(" - ")[2].split(" ", 1)[0]
    return ""
