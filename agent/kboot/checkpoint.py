"""What a checkpoint is: the files a pinned commit lists, and what of them is on this disk. Pure."""

from __future__ import annotations

import re
from typing import Literal, TypeGuard

from kboot.values import dataclass

WEIGHT_SUFFIXES = (".safetensors", ".gguf", ".bin", ".pt", ".pth")

_COMMIT = re.compile(r"[0-9a-f]{40}")
_TOO_LARGE_BYTES = 1 << 63  # no file system has such a file, no database such a number
_NAME_BYTES, _PATH_BYTES = 255, 4096  # of one name and a whole path, in every file system of Linux
_FORBIDDEN = frozenset({"", ".", ".."})


def is_commit(revision: str) -> bool:
    """Return whether a revision is a full commit, which never moves."""
    return _COMMIT.fullmatch(revision) is not None


def is_inside(path: str) -> bool:
    """Return whether a listed path is plain, relative and stays inside the folder it will be put in."""
    names = path.split("/")
    return (
        path.isprintable()
        and "\\" not in path
        and not _FORBIDDEN & set(names)
        and all(len(name.encode()) <= _NAME_BYTES for name in names)
        and len(path.encode()) <= _PATH_BYTES
    )


def is_file_size(value: object) -> TypeGuard[int]:
    """Return whether a listing may say that a file has so many bytes."""
    return type(value) is int and 0 <= value < _TOO_LARGE_BYTES


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """One file of the pinned commit, as the Hub's tree lists it.

    path: relative POSIX path inside the repository, already checked to stay inside it.
    blob_id: name of the blob in the Hugging Face cache: the sha256 for LFS files, the git SHA-1 otherwise.
    sha256: of the content; None for files kept in git itself, which blob_id (a git blob SHA-1) proves instead.
    """

    path: str
    size_bytes: int
    blob_id: str
    sha256: str | None
    xet_hash: str | None = None


@dataclass(frozen=True, slots=True)
class Listing:
    """The files of one repository at one commit, before and after include/exclude.

    repo: the id as the Hub spells it. revision: what was asked (branch, tag or commit). commit: 40 hex digits.
    files: wanted files, sorted by path. skipped: (path, reason) of the rest.
    origin: where the listing came from ("hub https://huggingface.co", "listing on this disk").
    """

    repo: str
    revision: str
    commit: str
    files: tuple[RemoteFile, ...]
    skipped: tuple[tuple[str, str], ...]
    origin: str

    @property
    def size_bytes(self) -> int:
        """Sum of the wanted files."""
        return sum(f.size_bytes for f in self.files)


VerifyMode = Literal["ledger", "quick", "full"]

ProofMode = Literal[
    "ledger",  # the identity it had when it was last hashed
    "quick",  # its structure
    "full",  # every byte
    "bake",  # what the manifest of this node's image says of it: fs-verity, else samples of its content
]

OfImage = Literal[
    "",  # no image, or it says nothing of this content
    "known",  # its manifest can tell whether this is the file that was baked; nobody compared it yet
    "samples",  # samples of its content were compared with the manifest, and its identity has not changed since
    "verity",  # the file system proves every page that is read by the digest in the manifest
]

FileState = Literal[
    "verified",  # hashed by kboot at some time, and its identity has not changed since
    "present",  # right size under its final name, but nobody here hashed it, or its identity changed since
    "partial",  # a resumable part
    "absent",
    "shared",  # as much of it as this node's ranks load is here, proven by range digests and not by the file's own hash
    "damaged",  # under its final name and provably wrong (size, structure, hash)
]


@dataclass(frozen=True, slots=True)
class Share:
    """What this node fetches of a file of which its ranks do not load everything.

    pieces: their numbers as the bits of a number. holder: the node that fetches and proves all of it, and publishes
    range digests. experts: those that this node's ranks load. size_bytes: of the pieces. have_bytes: of these, what is
    proven here.
    """

    pieces: int
    holder: str
    experts: frozenset[int]
    size_bytes: int
    have_bytes: int


@dataclass(frozen=True, slots=True)
class LocalFile:
    """What of one wanted file is on this disk.

    have_bytes: the size under the final name, or of the durable part of a partial.
    verified_unix_s: when its bytes were last hashed by kboot; None when never.
    resident_bytes: how much of it is in the page cache; None when not measured.
    why: the reason for the state where it is not obvious ("ctime changed since 2026-11-30").
    reserved_bytes: disk blocks that its partial has already, written or not.
    of_image: of a file that nobody hashed on this node, what its image vouches for.
    loaded: [start, end) stretches that this node's ranks load, and that resident_bytes is about; empty = all of it.
    enforced: the kernel proves its bytes at every read (fs-verity), by the digest that it had when they were hashed.
    told_by: of a shared file, the node whose range digests prove what is here. share: what is fetched of it where that
    is not all. alone: no other node of the fleet fetches it from the origin, so that all of it is for this one.
    """

    file: RemoteFile
    state: FileState
    have_bytes: int
    verified_unix_s: float | None = None
    resident_bytes: int | None = None
    why: str = ""
    reserved_bytes: int = 0
    of_image: OfImage = ""
    loaded: tuple[tuple[int, int], ...] = ()
    enforced: bool = False
    told_by: str = ""
    share: Share | None = None
    alone: bool = False

    @property
    def is_whole(self) -> bool:
        """Whether all of it is here under its final name, as far as its size tells."""
        return self.state in ("verified", "present")

    @property
    def is_readable(self) -> bool:
        """Whether something of it can be read: all, or what this node's ranks load."""
        return self.is_whole or self.state == "shared"

    @property
    def loaded_bytes(self) -> int:
        """How much of it this node's ranks load."""
        return sum(end - start for start, end in self.loaded) or self.file.size_bytes


@dataclass(frozen=True, slots=True)
class CheckpointFacts:
    """The pinned commit and what this disk holds of it.

    snapshot_path: the folder of links an engine reads. published: it is complete and `models/<profile>` points to it.
    """

    listing: Listing
    files: tuple[LocalFile, ...]
    snapshot_path: str
    published: bool

    @property
    def missing_bytes(self) -> int:
        """Bytes still to fetch, partial credit counted."""
        return sum(_missing_bytes(f) for f in self.files if _is_fetched(f))

    @property
    def disk_bytes(self) -> int:
        """Disk space that fetching the rest still takes: blocks that a killed fetch reserved are not taken again."""
        left = {f.file.blob_id: _left_bytes(f) for f in self.files if _is_fetched(f)}
        return sum(left.values())


def _is_fetched(local: LocalFile) -> bool:
    return local.share is not None or local.state in ("absent", "partial", "damaged")


def _missing_bytes(local: LocalFile) -> int:
    if local.share is not None:
        return local.share.size_bytes - local.share.have_bytes
    return local.file.size_bytes - (local.have_bytes if local.state == "partial" else 0)


def _left_bytes(local: LocalFile) -> int:
    if local.share is not None:
        return _missing_bytes(local)
    here = max(local.reserved_bytes, local.have_bytes if local.state == "partial" else 0)
    return max(0, local.file.size_bytes - here)
