"""Who besides this process must get at a file? On an installed node the engine's group; elsewhere nobody.

An installed node runs the engine as a user of its own, of the group that /var/lib/kboot and /run/kboot belong to. Those
folders are set-group-id, which gives everything in them that group and is how they are recognised here.
"""

from __future__ import annotations

import grp
import os
import stat
from pathlib import Path

from kboot.errors import ActionFailed
from kboot.host.os_errors import explained
from kboot.values import dataclass


def secret_mode(folder: Path) -> int:
    """Return the mode for a key or record in `folder`: 0600, or 0640 where the engine's group owns the folder."""
    return 0o640 if _shared(folder) else 0o600


def engine_dir_mode(folder: Path) -> int:
    """Return the mode for a folder below `folder` that the engine writes: 0755, or 0770 for the engine's group."""
    return 0o770 if _shared(folder) else 0o755


def require_own(*paths: Path) -> None:
    """Return where each file or folder, if it is there, is root's or this user's.

    Raises:
        ActionFailed: another user could have written what is in it.
    """
    for path in paths:
        owner = _owner(path)
        if owner not in (None, 0, os.geteuid()):
            raise ActionFailed(
                "belongs-to-another-user",
                f"{path.name} belongs to user id {owner}, who could have written anything into it",
                where=(str(path),),
                hint="let KBOOT_STATE_DIR name a folder of your own, or remove this: `kboot boot` makes it again",
            )


def _owner(path: Path) -> int | None:
    """Return who owns it; None where nothing is there, or nothing may be seen, and so nothing will be read either."""
    try:
        return os.stat(path).st_uid
    except OSError:
        return None


def require_engines(folder: Path) -> None:
    """Return where a folder of kernel caches is root's, this user's, or the engine's on an installed node.

    Raises:
        ActionFailed: an engine would run what another user has put there.
    """
    if not _shared(folder.parent):
        require_own(folder)


def _shared(folder: Path) -> bool:
    try:
        return bool(os.stat(folder).st_mode & stat.S_ISGID)
    except OSError:
        return False


def share_with_group(folder: Path, group: str, mode: int) -> bool:
    """Give a folder that root made to a group, as systemd-tmpfiles does at boot; what is created in it follows.

    Returns False, and changes nothing, where there is no such group or this is not root.

    Raises:
        KbootError: the file system refuses.
    """
    try:
        gid = grp.getgrnam(group).gr_gid
    except KeyError:
        return False
    if os.geteuid() != 0:
        return False
    with explained("share the folder with the engine's group", folder):
        os.chown(folder, 0, gid)
        os.chmod(folder, mode | stat.S_ISGID)
    return True


@dataclass(frozen=True, slots=True)
class EngineUser:
    """Who will write the caches. gid: the engine's group on an installed node; None where the engine runs as `uid`."""

    uid: int
    gid: int | None

    def may_write(self, mode: int, uid: int, gid: int) -> bool:
        """Return whether the engine may change a file or folder of this mode, owner and group.

        On an installed node the engine's own id is not known here, but whatever is not root's was written by it.
        """
        if self.gid is None:
            return self.uid == 0 or bool(mode & 0o002) or (uid == self.uid and bool(mode & 0o200))
        if uid != 0:
            return bool(mode & 0o200)
        return bool(mode & 0o002) or (gid == self.gid and bool(mode & 0o020))


def engine_user(folder: Path) -> EngineUser:
    """Return who writes the caches in a folder."""
    try:
        found = os.stat(folder)
    except OSError:
        return EngineUser(os.geteuid(), None)
    return EngineUser(os.geteuid(), found.st_gid if found.st_mode & stat.S_ISGID else None)


def engine_file_mode(mode: int, folder: Path) -> int:
    """Return the mode for a file that the engine must be able to change, from the one it had elsewhere."""
    kept = mode & 0o777 | 0o600
    return kept | 0o060 if _shared(folder) else kept
