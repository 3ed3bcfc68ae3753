"""Small real checkpoints: safetensors shards with an index, their listing, and a source that has them in memory.

`make()` gives contents by path; `listing()` what a Hub would list of them; `fetch_all()` puts them into a store as a
fetch would; `MemorySource` answers like a Hub, counts what it is asked, and can be told to refuse.
"""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Iterable, Mapping
from pathlib import Path

from kboot.checkpoint import Listing, RemoteFile
from kboot.errors import SourceError
from kboot.host.paths import Paths
from kboot.sources.types import Found
from kboot.store.store import Store

REPO = "acme/Tiny-1B"
COMMIT = "c" * 40
INDEX = "model.safetensors.index.json"


def shard(tensors: Mapping[str, int], fill: int = 0) -> bytes:
    """Return a safetensors file with a U8 tensor of so many bytes for each name."""
    header, at = {}, 0
    for name, size in tensors.items():
        header[name] = {"dtype": "U8", "shape": [size], "data_offsets": [at, at + size]}
        at += size
    return framed(json.dumps(header).encode(), bytes([fill]) * at)


def framed(header: bytes, data: bytes) -> bytes:
    """Return length, header and data, whatever they are."""
    return struct.pack("<Q", len(header)) + header + data


def make(shards: int = 3, size: int = 64) -> dict[str, bytes]:
    """Return the files of a sharded checkpoint by path."""
    names = [f"model-{n:05d}-of-{shards:05d}.safetensors" for n in range(1, shards + 1)]
    files = {name: shard({f"layer.{n}.weight": size}, n) for n, name in enumerate(names)}
    weight_map = {f"layer.{n}.weight": name for n, name in enumerate(names)}
    files[INDEX] = json.dumps({"metadata": {}, "weight_map": weight_map}).encode()
    files["config.json"] = b'{"model_type": "tiny"}'
    return files


def remote(path: str, content: bytes) -> RemoteFile:
    """Return a file as a Hub lists it: weights in LFS, the rest in git."""
    if path.endswith((".safetensors", ".bin")):
        sha256 = hashlib.sha256(content).hexdigest()
        return RemoteFile(path, len(content), sha256, sha256)
    return RemoteFile(path, len(content), hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest(), None)


def listing(files: Mapping[str, bytes], revision: str = "main", commit: str = COMMIT, repo: str = REPO) -> Listing:
    """Return the listing with every file wanted."""
    return Listing(repo, revision, commit, tuple(remote(p, files[p]) for p in sorted(files)), (), "memory")


def paths_in(folder: Path) -> Paths:
    """Return a node's paths below a folder."""
    return Paths(folder / "state", folder / "run", folder / "etc")


def fetch_all(store: Store, wanted: Listing, files: Mapping[str, bytes], only: Iterable[str] | None = None) -> None:
    """Put files into the store as a fetch would: written as a part, then admitted."""
    for file in wanted.files:
        if only is None or file.path in only:
            part = store.part_path(wanted.repo, file.blob_id)
            part.parent.mkdir(parents=True, exist_ok=True)
            part.write_bytes(files[file.path])
            store.admit(wanted, file, part, "memory")


def copy_in(store: Store, wanted: Listing, files: Mapping[str, bytes]) -> None:
    """Put blobs where another tool would have left them: under their names, hashed by nobody here."""
    for file in wanted.files:
        blob = store.blob_path(wanted.repo, file.blob_id)
        blob.parent.mkdir(parents=True, exist_ok=True)
        blob.write_bytes(files[file.path])


class MemoryBody:
    """The bytes of one file, from memory."""

    def __init__(self, content: bytes, start: int, end: int | None) -> None:
        self.start = start
        self.total_bytes: int | None = len(content)
        self._rest = content[start:end]

    def readinto(self, buffer: memoryview) -> int:
        taken, self._rest = self._rest[: len(buffer)], self._rest[len(buffer) :]
        buffer[: len(taken)] = taken
        return len(taken)

    def __enter__(self) -> MemoryBody:
        return self

    def __exit__(self, *_: object) -> None:
        self._rest = b""


class MemorySource:
    """A Hub in memory: `heads` maps branches to commits, `commits` commits to files by path.

    asked: every request, in order. refuse: raised instead of any answer.
    """

    def __init__(self, name: str = "hub", *, trusted: bool = True) -> None:
        self.name = name
        self.trusted = trusted
        self.repo = REPO
        self.heads: dict[str, str] = {}
        self.commits: dict[str, dict[str, bytes]] = {}
        self.asked: list[str] = []
        self.refuse: SourceError | None = None

    def list(self, repo: str, revision: str) -> Found:
        self._ask(f"list {revision}")
        commit = self.heads.get(revision, revision)
        files = self._files(commit)
        return Found(self.repo, commit, tuple(remote(path, files[path]) for path in sorted(files)))

    def read(self, repo: str, commit: str, file: RemoteFile, limit_bytes: int) -> bytes:
        self._ask(f"read {commit[:4]} {file.path}")
        return self._files(commit)[file.path]

    def open(self, repo: str, commit: str, file: RemoteFile, start: int, end: int | None = None) -> MemoryBody:
        self._ask(f"open {commit[:4]} {file.path}")
        return MemoryBody(self._files(commit)[file.path], start, end)

    def interrupt(self) -> None:
        self.refuse = SourceError("interrupted", "kboot was stopped")

    def _ask(self, what: str) -> None:
        self.asked.append(what)
        if self.refuse:
            raise self.refuse

    def _files(self, commit: str) -> dict[str, bytes]:
        if commit not in self.commits:
            raise SourceError("revision-not-found", f"{self.repo} has no revision {commit}")
        return self.commits[commit]
