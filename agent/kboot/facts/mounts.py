"""What is mounted where, and where does a path lead?"""

from __future__ import annotations

import posixpath
import re
from typing import TYPE_CHECKING

from kboot.values import dataclass

if TYPE_CHECKING:
    from kboot.facts.reader import Reader

MOUNTINFO = "/proc/self/mountinfo"
_MAX_LINKS = 40


@dataclass(frozen=True, slots=True)
class MountLine:
    """One line of mountinfo. root: the part of the file system that is mounted (a cgroup path, a bind source)."""

    root: str
    mount_point: str
    options: frozenset[str]
    fs_type: str
    device: str
    super_options: frozenset[str]


def parse_mountinfo(text: str) -> tuple[MountLine, ...]:
    """Return the mounts in the kernel's order (a later one covers an earlier one); other lines are left out.

    Format: https://docs.kernel.org/filesystems/proc.html, section 3.5.
    """
    lines = []
    for line in text.splitlines():
        before, _, after = line.partition(" - ")
        left, right = before.split(" "), after.split(" ")
        if len(left) >= 6 and len(right) >= 3:
            root, point = unescape(left[3]), unescape(left[4])
            options, supers = frozenset(left[5].split(",")), frozenset(right[2].split(","))
            lines.append(MountLine(root, point, options, right[0], unescape(right[1]), supers))
    return tuple(lines)


def mount_of(path: str, mounts: tuple[MountLine, ...]) -> MountLine | None:
    """Return the mount that holds a path without links in it; it need not exist."""
    best: MountLine | None = None
    for mount in mounts:
        inside = path == mount.mount_point or path.startswith(mount.mount_point.rstrip("/") + "/")
        if inside and (best is None or len(mount.mount_point) >= len(best.mount_point)):
            best = mount
    return best


def real_path(reader: Reader, path: str) -> str:
    """Return the path with its links resolved; parts that do not exist stay as they are."""
    parts = [p for p in path.split("/") if p][::-1]
    at = "/"
    links = 0
    while parts:
        step = posixpath.normpath(posixpath.join(at, parts.pop()))
        try:
            target = reader.host.link_target(step) if links < _MAX_LINKS else ""
        except OSError:  # not a link, or absent
            target = ""
        if target:
            links += 1
            parts += [p for p in target.split("/") if p][::-1]
            at = "/" if target.startswith("/") else at
        else:
            at = step
    return at


def unescape(text: str) -> str:
    """Return a field of mountinfo or fstab with its octal escapes read."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match.group(1), 8)), text)
