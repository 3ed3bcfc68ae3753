"""Which file systems hold kboot's folders, and how much room do they have?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kboot.facts.basic_types import Gap, Mount
from kboot.facts.mounts import MOUNTINFO, mount_of, parse_mountinfo, real_path
from kboot.facts.reader import Reader

if TYPE_CHECKING:
    from kboot.host.paths import Paths
    from kboot.host.types import DiskSpace, Host


def collect_storage(host: Host, paths: Paths) -> tuple[tuple[Mount, ...], tuple[Gap, ...]]:
    """Read the mounts of the state, cache and runtime folders; one that is not there yet counts by its parent."""
    reader = Reader(host)
    folders = (("state", paths.state), ("cache", paths.cache), ("runtime", paths.runtime))
    roles = [(role, host.machine_path(path)) for role, path in folders]
    looks = Reader(host)
    spaces = {role: _space(looks, role, where) for role, where in roles}  # this mounts what is mounted on demand
    mounts = parse_mountinfo(reader.text("mounts", MOUNTINFO) or "")
    found = []
    for role, where in roles:
        line, space = mount_of(real_path(reader, where), mounts), spaces[role]
        if isinstance(space, PermissionError):  # what is mounted below, or a link there, cannot be seen
            line, space = None, None
        elif line is None and mounts:
            reader.gap(f"mounts.{role}", MOUNTINFO, f"no mount holds {where}")
        found.append(
            Mount(
                role=role,
                path=where,
                mount_point=line.mount_point if line else "",
                fs_type=line.fs_type if line else "",
                device=line.device if line else "",
                read_only=line is not None and "ro" in line.options | line.super_options,
                total_bytes=space.total_bytes if space else None,
                free_bytes=space.free_bytes if space else None,
                free_inodes=space.free_inodes if space else None,
            )
        )
    return tuple(found), (*reader.gaps, *looks.gaps)


def _space(reader: Reader, role: str, path: str) -> DiskSpace | PermissionError | None:
    try:
        return reader.host.disk_space(path)
    except PermissionError as exc:
        reader.gap(f"mounts.{role}", path, exc)
        return exc
    except OSError as exc:
        reader.gap(f"mounts.{role}.free_bytes", path, exc)
        return None
