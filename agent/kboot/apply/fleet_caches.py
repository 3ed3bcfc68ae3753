"""Keeps each node's kernel caches on its neighbours, so that a node that is replaced has those of its ranks at once.

Tuned and compiled kernels lie in folders by rank, so that no node can do with another one's. Each archives its own when
its engine has reached ready; the next two nodes of the group keep a copy and give it to whoever has that rank later.
"""

from __future__ import annotations

import hashlib
import json
import re
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import field
from pathlib import Path
from typing import Any

from kboot.apply.cache_export import export_cache
from kboot.apply.cache_import import Imported, import_cache
from kboot.checks.words import count
from kboot.engines.types import CacheKey
from kboot.errors import ActionFailed, KbootError, SourceError
from kboot.events import Emit, Notice
from kboot.host.files import file_names, make_dirs, remove
from kboot.host.priority import be_idle
from kboot.host.stream import OutFile, open_to_read
from kboot.plan.cache import misfits
from kboot.quantities import show_bytes
from kboot.sources.peers import PREFIX, Peer
from kboot.store.cache_files import COMPLETE
from kboot.values import dataclass

CACHES_TARGET = f"{PREFIX}/caches"
COPIES = 2
_EVERY_S = 30.0
_READ_BYTES = 1 << 20
_MOST_BYTES = 64 << 30
_DIGEST = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Kept:
    """One archive that this node can give."""

    path: Path
    size_bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Place:
    """Whose caches these are. rank: of this node among `nodes`. cache_dir: of the key, where the engine writes."""

    key: CacheKey
    rank: int
    nodes: int
    cache_dir: Path
    folder: Path

    def name(self, rank: int) -> str:
        """Return how the archive of a rank is called, here and on other nodes."""
        return f"{self.key.name}.{rank}-of-{self.nodes}.tar.zst"

    @property
    def theirs(self) -> tuple[int, ...]:
        """Return the ranks whose archives this node keeps."""
        return tuple((self.rank - step) % self.nodes for step in range(1, min(COPIES, self.nodes - 1) + 1))


@dataclass(slots=True)
class CacheKeeper:
    """One node's part in it. peers: the other nodes of the group by rank. files: what the node's server gives.

    complete: called whenever this node's caches are found to be complete.
    """

    place: Place
    peers: Mapping[int, Peer]
    files: dict[str, Callable[[], Path | None]]
    emit: Emit
    complete: Callable[[], None] = lambda: None
    _kept: dict[int, Kept] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _stop: threading.Event = field(default_factory=threading.Event)
    _told: set[str] = field(default_factory=set)

    def begin(self) -> None:
        """Look from time to time, in a thread that steps back behind everything else."""
        threading.Thread(target=self._run, name="fleet-caches", daemon=True).start()

    def end(self) -> None:
        """Look no more."""
        self._stop.set()

    def page(self) -> bytes:
        """Return which archives are here, each with its digest: a document that other nodes read."""
        with self._lock:
            kept = {self.place.name(r): {"size_bytes": k.size_bytes, "sha256": k.sha256} for r, k in self._kept.items()}
        return json.dumps({"schema": 1, "kind": "fleet-caches", "archives": kept}).encode()

    def restore(self, stop: threading.Event) -> Imported | None:
        """Take in the caches of this node's rank from this disk, else from whoever keeps them; None where nobody does.

        What keeps an archive from being used is told: the engine then compiles and tunes as it would alone.
        """
        rank = self.place.rank
        if (self.place.cache_dir / COMPLETE).exists():
            return None
        self._know(rank)
        found = self._take_in("this disk") if rank in self._kept else None
        for peer in self.peers.values():
            if found is not None or stop.is_set():
                break
            try:
                kept = self._fetch(peer, self.place.name(rank))
            except KbootError as exc:
                self._tell(f"{peer.name}: {exc.code}: {exc.message}")
                continue
            if kept is not None:
                self._keep(rank, kept)
                found = self._take_in(peer.name)
        return found

    def _take_in(self, source: str) -> Imported | None:
        place = self.place
        try:
            with open_to_read(self._kept[place.rank].path) as stream:
                found = import_cache(stream, place.cache_dir.parent, lambda a: misfits(a.factors, place.key.factors))
        except KbootError as exc:
            self._tell(f"{source}: {exc.code}: {exc.message}")
            return None
        size = show_bytes(found.size_bytes)
        text = f"{count(found.files, 'file')} of rank {place.rank} ({size}) came from {source}"
        self.emit(Notice("fleet.cache_restored", text))
        return found

    def look(self) -> None:
        """Archive this node's caches when they are complete and new, and keep those of its neighbours."""
        make_dirs(self.place.folder, 0o700)
        self._forget_others()
        for rank in (self.place.rank, *self.place.theirs):
            self._know(rank)
        with suppress(OSError):
            made_ns = (self.place.cache_dir / COMPLETE).stat().st_mtime_ns
            self.complete()
            own = self._kept.get(self.place.rank)
            if own is None or own.path.stat().st_mtime_ns <= made_ns:
                self._export()
        for rank in self.place.theirs:
            peer = self.peers.get(rank)
            if peer is not None and not self._stop.is_set() and (kept := self._fetch(peer, self.place.name(rank))):
                self._keep(rank, kept)

    def _run(self) -> None:
        be_idle()
        while not self._stop.is_set():
            try:
                self.look()
            except KbootError as exc:
                self._tell(f"{exc.code}: {exc.message}")
            self._stop.wait(_EVERY_S)

    def _export(self) -> None:
        target = self.place.folder / self.place.name(self.place.rank)
        exported = export_cache(self.place.cache_dir, target, 1, stop=self._stop)
        self._keep(self.place.rank, Kept(target, exported.archive_bytes, _sha256(target)))

    def _fetch(self, peer: Peer, name: str) -> Kept | None:
        """Return a node's archive when it has one that is not here yet; proven by the digest that it signed."""
        told = self._archives(peer).get(name)
        if told is None:
            return None
        size, sha256 = _told(told, name, peer.name)
        with self._lock:
            if any(kept.sha256 == sha256 for kept in self._kept.values()):
                return None
        make_dirs(self.place.folder, 0o700)
        target, digest = self.place.folder / name, hashlib.sha256()
        body, size_bytes = peer.open_file(f"{PREFIX}/cache/{name}")
        buffer = memoryview(bytearray(_READ_BYTES))
        with body, OutFile(target, 0o600) as out:
            while size_bytes == size and (got := body.readinto(buffer)):
                digest.update(buffer[:got])
                out.write(buffer[:got])
            if digest.hexdigest() != sha256:
                raise ActionFailed("peer-archive-wrong", f"{peer.name} gave other bytes for {name} than it signed")
            out.commit()
        return Kept(target, size, sha256)

    def _archives(self, peer: Peer) -> Mapping[str, Any]:
        try:
            archives = peer.ask(CACHES_TARGET).get("archives")
        except SourceError:  # away, or of a version without caches
            return {}
        return archives if isinstance(archives, dict) else {}

    def _know(self, rank: int) -> None:
        """Take note of an archive that an earlier process left."""
        path = self.place.folder / self.place.name(rank)
        with suppress(OSError):
            if rank not in self._kept and path.stat().st_size:
                self._keep(rank, Kept(path, path.stat().st_size, _sha256(path)))

    def _keep(self, rank: int, kept: Kept) -> None:
        with self._lock:
            self._kept[rank] = kept
        self.files[f"{PREFIX}/cache/{self.place.name(rank)}"] = lambda: kept.path

    def _forget_others(self) -> None:
        """Remove archives of other keys: what is served now is what a replaced node will need."""
        mine = {self.place.name(rank) for rank in range(self.place.nodes)}
        for name in file_names(self.place.folder):
            if name not in mine and name.endswith(".tar.zst"):
                remove(self.place.folder / name)

    def _tell(self, text: str) -> None:
        """Say once what went wrong."""
        if text not in self._told and len(self._told) < _MOST_TOLD:
            self._told.add(text)
            self.emit(Notice("fleet.caches_not_kept", text))


_MOST_TOLD = 64


def _told(told: Any, name: str, peer: str) -> tuple[int, str]:
    """Return size and digest of an archive as another node tells them.

    Raises:
        SourceError: it does not.
    """
    size, sha256 = (told.get("size_bytes"), told.get("sha256")) if isinstance(told, dict) else (None, None)
    if type(size) is int and 0 < size <= _MOST_BYTES and isinstance(sha256, str) and _DIGEST.fullmatch(sha256):
        return size, sha256
    raise SourceError("peer-answer-not-valid", f"{peer} tells nothing usable of {name}")


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with open_to_read(path) as file:
        while data := file.read(_READ_BYTES):
            digest.update(data)
    return digest.hexdigest()
