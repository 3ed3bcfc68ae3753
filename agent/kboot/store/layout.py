"""Where below the hub folder do a repository's files lie, as huggingface_hub 1.31 to 2.4 reads them?"""

from __future__ import annotations

import errno
import re
from collections.abc import Set
from functools import lru_cache
from pathlib import Path
from typing import Literal

from kboot.errors import KbootError, ProfileError, UsageError
from kboot.host.files import file_names, identity, link_or_copy, make_dirs, replace_link
from kboot.values import dataclass

LinkKind = Literal["symlink", "link", "copy"]

_BLOB_ID = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_REPO = re.compile(r"[A-Za-z0-9_][\w.-]*(/[A-Za-z0-9_][\w.-]*)?", re.ASCII)
_PREFIX = "models--"
_NO_SYMLINK = frozenset({errno.EPERM, errno.EACCES, errno.ENOTSUP, errno.ENOSYS, errno.EINVAL})


@dataclass(frozen=True, slots=True)
class RepoFolder:
    """The folder of one repository: blobs/, snapshots/<commit>/, refs/ and trees/ below `path`."""

    path: Path

    @property
    def blobs(self) -> Path:
        """Contents, each under the name of its hash."""
        return self.path / "blobs"

    def blob(self, blob_id: str) -> Path:
        """Return where the proven content lies."""
        return self.blobs / blob_id

    def part(self, blob_id: str) -> Path:
        """Return where the content grows; not `.incomplete`, which `hf cache prune` removes."""
        return self.blobs / f"{blob_id}.part"

    def snapshot(self, commit: str) -> Path:
        """Return the folder of links that an engine reads."""
        return self.path / "snapshots" / commit

    def tree(self, commit: str) -> Path:
        """Return the listing of the commit."""
        return self.path / "trees" / f"{commit}.json"

    def ref(self, revision: str) -> Path:
        """Return the file that holds the commit a branch or tag stood for."""
        return self.path / "refs" / revision


def is_blob_id(name: str) -> bool:
    """Return whether the name is a sha256 or a git SHA-1 in lower-case hex."""
    return _BLOB_ID.fullmatch(name) is not None


@lru_cache(maxsize=16)
def repo_folder(hub: Path, repo: str) -> RepoFolder:
    """Return the folder of a repository, there or not.

    Raises:
        ProfileError: the id is not one or two plain names.
    """
    if not _REPO.fullmatch(repo) or ".." in repo:
        raise ProfileError(
            "repo-not-valid",
            f"{repo!r} is not a repository id: wanted owner/name of letters, digits, '.', '_' and '-'",
            hint="copy the id from the model's page",
        )
    return RepoFolder(hub / (_PREFIX + repo.replace("/", "--")))


def spelled_on_disk(hub: Path, repo: str) -> str | None:
    """Return the id as this disk spells it: the same, or the only one that differs in letter case; None without one.

    Raises:
        UsageError: two folders differ from the id in letter case only.
        KbootError: the folder may not be read.
    """
    wanted = repo_folder(hub, repo).path.name
    found = [name for name in file_names(hub) if name.lower() == wanted.lower()]
    if wanted in found:
        return repo
    if len(found) > 1:
        raise UsageError(
            "repo-ambiguous",
            f"{repo} is on this disk in {len(found)} spellings and none is exactly this",
            where=tuple(str(hub / name) for name in found),
            hint="write the repository id as the Hub spells it, or remove the folder that is not wanted",
        )
    return _respell(repo, found[0]) if found else None


def _respell(repo: str, folder: str) -> str:
    owner, slash, _ = repo.partition("/")
    spelled = folder[len(_PREFIX) :]
    return spelled[: len(owner)] + slash + spelled[len(owner) + 2 :] if slash else spelled


def link_target(path: str, blob_id: str) -> str:
    """Return what the snapshot's link says: relative, so that the hub folder can be moved or baked as a whole."""
    return f"{'../' * path.count('/')}../../blobs/{blob_id}"


def place(blob: Path, link: Path, target: str, *, symlinks: bool = True) -> LinkKind:
    """Give `link` the content of `blob`: a symbolic link, or where the file system refuses, a hard link or a copy.

    symlinks: False once this file system (exFAT, some NAS) has refused one. One that it took is durable when its folder
    is: fsync_dir().
    """
    make_dirs(link.parent)
    if symlinks:
        try:
            replace_link(link, target, durable=False)
        except KbootError as exc:
            if not (isinstance(exc.__cause__, OSError) and exc.__cause__.errno in _NO_SYMLINK):
                raise
        else:
            return "symlink"
    return link_or_copy(blob, link)


def leads_to(link: Path, target: str, blob: Path) -> bool:
    """Return whether `link` is the symbolic link `target`, or a hard link of `blob`, and not dangling."""
    try:
        if link.is_symlink():
            return str(link.readlink()) == target and link.is_file()
        there, here = identity(blob), identity(link)
    except OSError:
        return False
    return (there.dev, there.inode) == (here.dev, here.inode)


def dangling_links(snapshot: Path) -> tuple[str, ...]:
    """Return the paths below a snapshot whose links lead to nothing, sorted."""
    return tuple(sorted(str(p.relative_to(snapshot)) for p in snapshot.rglob("*") if p.is_symlink() and not p.exists()))


def other_files(snapshot: Path, wanted: Set[str]) -> tuple[str, ...]:
    """Return the paths below a snapshot that are not wanted, sorted; folders do not count."""
    found = (str(p.relative_to(snapshot)) for p in snapshot.rglob("*") if p.is_symlink() or not p.is_dir())
    return tuple(sorted(path for path in found if path not in wanted))
