"""What is an archive of kernel caches? A tar stream whose first member lists every other one with its SHA-256. Pure.

    kboot-cache.json        key, factors, completion, and of each file: path, size, mtime in ns, mode, SHA-256
    files/<path> …          in the order of the list, sorted by path

The list, not the tar headers, is what an import goes by; the headers must agree with it. Nothing but regular files is
written or accepted.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from kboot.errors import ActionFailed
from kboot.store.cache_files import OWN
from kboot.values import dataclass

LIST_NAME = "kboot-cache.json"
BLOCK = 512
MAX_LIST_BYTES = 512 << 20
MAX_FILES = 1_000_000
MAX_FILE_BYTES = 1 << 33  # what a ustar header can say
END = bytes(2 * BLOCK)

_KIND = "cache-archive"
_SCHEMA = 1
_PREFIX = "files/"
_DIGEST = "list_sha256"
_MAX_PATH_BYTES = 2000
_MAX_NAME_BYTES = 255
_MAX_PAX_BYTES = 8 << 10
_MAX_DEPTH = 64
_KEY = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,249}")
_SHA256 = re.compile(r"[0-9a-f]{64}")


class ArchivedFile(NamedTuple):
    """One file of the list. A tuple, since there are tens of thousands."""

    path: str
    size_bytes: int
    mtime_ns: int
    mode: int
    sha256: str


@dataclass(frozen=True, slots=True)
class ArchiveList:
    """The first member. completed_unix_s: when an engine reached ready with these files; None when none did."""

    key: str
    factors: Mapping[str, str]
    completed_unix_s: float | None
    kboot_version: str
    files: tuple[ArchivedFile, ...]

    @property
    def size_bytes(self) -> int:
        """Sum of the files."""
        return sum(f.size_bytes for f in self.files)


class NotAnArchive(ActionFailed):
    """The bytes are not an archive of kernel caches, or not a whole one."""

    def __init__(self, message: str) -> None:
        super().__init__("archive-not-valid", message, hint="export it again, and copy it whole")


def can_be_carried(path: str, size_bytes: int) -> bool:
    """Return whether a file's name and size fit an archive."""
    try:
        return size_bytes < MAX_FILE_BYTES and not _path_fault(path)
    except UnicodeEncodeError:
        return False


def encode_list(found: ArchiveList) -> bytes:
    """Return the first member's content; the same list gives the same bytes."""
    document = {
        "schema": _SCHEMA,
        "kind": _KIND,
        "key": found.key,
        "factors": dict(sorted(found.factors.items())),
        "completed_unix_s": found.completed_unix_s,
        "kboot_version": found.kboot_version,
        "files": sorted(found.files),
    }
    return _json({**document, _DIGEST: list_digest(document)}) + b"\n"


def list_digest(document: Mapping[str, Any]) -> str:
    """Return the SHA-256 of a list without its digest: what no other hash covers, the key and the factors, is in it."""
    return hashlib.sha256(_json(document)).hexdigest()


def _json(document: Mapping[str, Any]) -> bytes:
    return json.dumps(document, ensure_ascii=False, sort_keys=True, separators=(",", ":")).encode()


def decode_list(data: bytes) -> ArchiveList:
    """Return the list, every value of it checked.

    Raises:
        NotAnArchive: it is not one that this version wrote.
    """
    try:
        document = json.loads(data)
        if document.pop(_DIGEST) != list_digest(document):
            raise NotAnArchive("its list is damaged: its SHA-256 is another one")
        if (document["schema"], document["kind"]) != (_SCHEMA, _KIND):
            raise NotAnArchive(f"schema {document['schema']} of {document['kind']}, wanted {_SCHEMA} of {_KIND}")
        files = tuple(ArchivedFile(*row) for row in document["files"])
        completed = document["completed_unix_s"]
        found = ArchiveList(
            key=document["key"],
            factors=document["factors"],
            completed_unix_s=None if completed is None else float(completed),
            kboot_version=str(document["kboot_version"]),
            files=files,
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError) as exc:
        raise NotAnArchive(f"its list cannot be read ({type(exc).__name__}: {exc})"[:200]) from exc
    _check(found)
    return found


def _check(found: ArchiveList) -> None:
    if not isinstance(found.key, str) or not _KEY.fullmatch(found.key):
        raise NotAnArchive(f"its key {str(found.key)[:80]!r} is no name of a folder")
    if not isinstance(found.factors, dict) or not all(
        isinstance(k, str) and isinstance(v, str) for k, v in found.factors.items()
    ):
        raise NotAnArchive("its factors are not text")
    if len(found.files) > MAX_FILES:
        raise NotAnArchive(f"it lists {len(found.files)} files, {MAX_FILES} at most are taken")
    paths = {file.path for file in found.files if isinstance(file.path, str)}
    before = ""
    for file in found.files:
        _check_file(file)
        if file.path <= before:
            raise NotAnArchive(f"{file.path!r} stands twice or out of order in its list")
        if not paths.isdisjoint(_above(file.path)):
            raise NotAnArchive(f"a folder of {file.path!r} is a file as well in its list")
        before = file.path


def _above(path: str) -> list[str]:
    parts = path.split("/")
    return ["/".join(parts[:n]) for n in range(1, len(parts))]


def _check_file(file: ArchivedFile) -> None:
    if not isinstance(file.path, str):
        raise NotAnArchive("a path in its list is not text")
    try:
        fault = _path_fault(file.path)
    except UnicodeEncodeError:
        fault = "is not UTF-8"
    if fault:
        raise NotAnArchive(f"the path {file.path[:120]!r} in its list {fault}")
    numbers = (file.size_bytes, file.mtime_ns, file.mode)
    if not all(type(n) is int for n in numbers) or not (
        0 <= file.size_bytes < MAX_FILE_BYTES and 0 <= file.mtime_ns < 1 << 63 and 0 <= file.mode <= 0o777
    ):
        raise NotAnArchive(f"size, time or mode of {file.path!r} is impossible")
    if not isinstance(file.sha256, str) or not _SHA256.fullmatch(file.sha256):
        raise NotAnArchive(f"the SHA-256 of {file.path!r} is none")


def _path_fault(path: str) -> str:
    """Return why a path may not be written below a folder; empty when it may."""
    parts = path.split("/")
    if not path or any(part in ("", ".", "..") for part in parts):
        return "does not stay inside the folder"
    if "\0" in path or "\n" in path:
        return "holds a NUL or a line break"
    if (
        len(parts) > _MAX_DEPTH
        or len(path.encode()) > _MAX_PATH_BYTES
        or any(len(part.encode()) > _MAX_NAME_BYTES for part in parts)
    ):
        return "is too long"
    if parts[0] in OWN or parts[0].startswith(".kboot"):
        return "is one of kboot's own"
    return ""


def member_name(path: str) -> str:
    """Return a file's name in the tar stream."""
    return f"{_PREFIX}{path}"


def encode_header(name: str, size_bytes: int, mode: int, mtime_s: int) -> bytes:
    """Return the header of a regular file, owned by nobody in particular; a long name stands in a pax record before it.

    Format: POSIX.1-2017, pax, "pax Interchange Format" and "ustar Interchange Format".
    """
    raw = name.encode()
    split = _split(raw)
    if split is not None:
        return _ustar(*split, size_bytes, mode, mtime_s, b"0")
    record = _pax_record(b"path", raw)
    extended = _ustar(b"", b"pax", len(record), 0o644, 0, b"x") + record + padding(len(record))
    return extended + _ustar(b"", raw[-100:].partition(b"/")[2] or b"long", size_bytes, mode, mtime_s, b"0")


def _ustar(prefix: bytes, name: bytes, size_bytes: int, mode: int, mtime_s: int, kind: bytes) -> bytes:
    mtime_s = min(max(0, mtime_s), 0o77777777777)
    head = b"%b%07o\0%07o\0%07o\0%011o\0%011o\0" % (name.ljust(100, b"\0"), mode, 0, 0, size_bytes, mtime_s)
    tail = b"%b%b%b%b%07o\0%07o\0%b%b" % (
        kind, bytes(100), b"ustar\x0000", bytes(64), 0, 0, prefix.ljust(155, b"\0"), bytes(12),
    )  # fmt: skip
    checksum = sum(head) + sum(tail) + 8 * 32
    return b"%b%06o\0 %b" % (head, checksum, tail)


def _pax_record(key: bytes, value: bytes) -> bytes:
    """Return "LENGTH KEY=VALUE\\n", whose length counts itself."""
    rest = len(key) + len(value) + 3
    length = rest + len(str(rest + len(str(rest))))
    return b"%d %b=%b\n" % (length, key, value)


def _split(name: bytes) -> tuple[bytes, bytes] | None:
    """Return (prefix, name) of a ustar header, None when it does not fit; the cut is at a slash."""
    if len(name) <= 100:
        return b"", name
    cut = name.find(b"/", len(name) - 101)
    return (name[:cut], name[cut + 1 :]) if 0 < cut <= 155 and cut + 1 < len(name) else None


def read_header(read: Callable[[int], bytes]) -> tuple[str, int] | None:
    """Return name and size of the next regular file; None at the end of the archive.

    read: returns exactly so many bytes, or fewer at the end of the stream.

    Raises:
        NotAnArchive: what comes next is neither.
    """
    block = read(BLOCK)
    if not block.strip(b"\0") and len(block) == BLOCK:
        return None
    name, size, kind = _decode(block)
    if kind == b"x":
        if size > _MAX_PAX_BYTES:
            raise NotAnArchive("an extended tar header is too long")
        record = read(size + len(padding(size)))[:size]
        name = _pax_path(record)
        _, size, kind = _decode(read(BLOCK))
    if kind != b"0":
        raise NotAnArchive(f"{name[:120]!r} is no regular file (tar type {kind!r})")
    return name, size


def _decode(block: bytes) -> tuple[str, int, bytes]:
    if len(block) != BLOCK or block[257:263] != b"ustar\0":
        raise NotAnArchive("a tar header is missing or cut short")
    try:
        wanted, size = int(block[148:154], 8), int(block[124:135], 8)
        name, prefix = _text(block[:100]), _text(block[345:500])
    except ValueError as exc:
        raise NotAnArchive("a tar header cannot be read") from exc
    if sum(block[:148]) + sum(block[156:]) + 8 * 32 != wanted or size < 0:
        raise NotAnArchive("a tar header's checksum is wrong")
    return (f"{prefix}/{name}" if prefix else name), size, block[156:157]


def _pax_path(record: bytes) -> str:
    length, _, rest = record.partition(b" ")
    if length != b"%d" % len(record) or not rest.startswith(b"path=") or not rest.endswith(b"\n"):
        raise NotAnArchive("an extended tar header holds more than a path")
    try:
        return rest[5:-1].decode()
    except ValueError as exc:
        raise NotAnArchive("a path in a tar header is not UTF-8") from exc


def _text(field: bytes) -> str:
    return field.partition(b"\0")[0].decode()


def padding(size_bytes: int) -> bytes:
    """Return the zeros that fill a member's last block."""
    return bytes(-size_bytes % BLOCK)


def carried(paths_and_sizes: Iterable[tuple[str, int]]) -> tuple[list[str], dict[str, int]]:
    """Return the paths that travel, sorted, and reason → number of those that do not."""
    kept: list[str] = []
    left: dict[str, int] = {}
    for path, size_bytes in paths_and_sizes:
        why = _why_left(path) or ("" if can_be_carried(path, size_bytes) else "a name or size that does not fit")
        if why:
            left[why] = left.get(why, 0) + 1
        else:
            kept.append(path)
    return sorted(kept), dict(sorted(left.items()))


_LEFT: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"(?:.*/)?gpu_p2p_access_cache_for_[^/]*\.json"), "says which GPUs of one machine reach each other"),
    (re.compile(r"(?:.*/)?(?:lock|[^/]*\.lock|\.ninja_lock)"), "locks"),
    (re.compile(r"(?:.*/)?(?:tmp|temp)/.*|(?:.*/)?[^/]*\.(?:tmp|temp|incomplete)(?:\.[^/]*)?"), "unfinished"),
    (re.compile(r"hf/(?!modules/).*"), "the Hub client's own"),
    (re.compile(r"vllm-config/.*"), "usage records"),
    (re.compile(r"pycache/.*"), "bytecode"),
)


def _why_left(path: str) -> str:
    return next((why for pattern, why in _LEFT if pattern.fullmatch(path)), "")
