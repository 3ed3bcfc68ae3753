"""In which texts of a tree does a secret stand? Everything is looked into but what is told to be passed by."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Literal

from kboot.events import Moved
from kboot.facts import residue_places as places
from kboot.facts.image_ground import ImageGround
from kboot.facts.secret_text import what_in
from kboot.host.image import Entry, ImageTree
from kboot.host.image_search import Find, ImageSearch, SearchBounds, Searched

TextKind = Literal["text", "log-text", "old-log", "scratch-text"]

_CODE_BYTES = 1 << 20
_NO_TEXT = "files that are no text by their names, or are packed (.so, .safetensors, .zip …)"
_CODE = "other people's code, but for this builder's own secrets (site-packages, node_modules …)"
_CHECKPOINTS = "checkpoints (blobs of the Hub's cache)"
_OBJECTS = "packed objects of git"
_REPOSITORY = re.compile(r"(?:models|datasets|spaces)--.+")
_PYTHON = re.compile(r"python3\.\d+")


class TextSearch:
    """One look at every text of a tree. seen: what an earlier look has proven to be without a secret."""

    def __init__(
        self,
        tree: ImageTree,
        state: str,
        ground: ImageGround,
        secrets: Sequence[bytes],
        seen: Callable[[Entry], bool],
    ) -> None:
        self._tree = tree
        self._ground = ground
        self._secrets = secrets
        self._seen = seen
        self._logs = (*places.LOGS, f"{state}/cache")
        self._passed: Counter[str] = Counter()
        self._folder: tuple[str, str | None] = ("", None)
        self.searched = Searched()

    def run(self, bounds: SearchBounds, moved: Moved) -> Iterator[tuple[str, TextKind, str]]:
        """Yield path, kind and name of each secret; `searched` is true once this has ended."""
        search = ImageSearch(self._tree, self._skip, self._choose, bounds, moved)
        for entry, what in search:
            yield entry.path, self._kind(entry.path), what
        done = search.searched
        passed = Counter(done.passed) + self._passed
        self.searched = Searched(done.files, done.size_bytes, {why: passed[why] for why in sorted(passed) if why})

    def _skip(self, folder: Entry) -> bool:
        if not self._ground.has(folder):
            return True
        above, _, name = folder.path.rpartition("/")
        if name == "blobs" and _REPOSITORY.fullmatch(above.rpartition("/")[2]):
            self._passed[_CHECKPOINTS] += 1
            return True
        if name == "objects" and above.endswith(".git"):
            self._passed[_OBJECTS] += 1
            return True
        why = _whose(folder.path)
        if why is None or any(looked.startswith(f"{folder.path}/") for looked in places.LOOKED_INTO):
            return False
        if why and self._secrets:
            return False
        self._passed[why] += 1
        return True

    def _choose(self, entry: Entry) -> Find | str:
        if not self._ground.has(entry) or self._seen(entry):
            return ""
        if entry.path.endswith(places.NO_TEXTS):
            return _NO_TEXT
        folder = entry.path.rpartition("/")[0]
        if folder != self._folder[0]:  # files come one folder after the other
            self._folder = (folder, _whose(folder))
        if (why := self._folder[1]) is not None:
            return self._values if why and self._secrets and entry.size_bytes <= _CODE_BYTES else why
        return self._with_logins if entry.path.endswith(".git/config") else self._anything

    def _values(self, data: bytes) -> str:
        return what_in(data, self._secrets, shapes=False)

    def _anything(self, data: bytes) -> str:
        return what_in(data, self._secrets)

    def _with_logins(self, data: bytes) -> str:
        return what_in(data, self._secrets) or ("a login in a URL" if places.URL_LOGIN.search(data) else "")

    def _kind(self, path: str) -> TextKind:
        if _is_below(path, self._logs):
            return "old-log" if places.OLD_LOG.fullmatch(path) else "log-text"
        return "scratch-text" if _is_below(path, places.SCRATCH) else "text"


def _is_below(path: str, tops: Collection[str]) -> bool:
    return any(path.startswith(f"{top}/") for top in tops)


def _whose(path: str) -> str | None:
    """Return why a file or folder is not the builder's; None for one that may be."""
    parts = path.split("/")
    if not (_is_below(path, places.LOOKED_INTO) or path in places.LOOKED_INTO):
        found = (places.PASSED_BY.get("/".join(parts[:count])) for count in (1, 2, 3))
        if (why := next((each for each in found if each is not None), None)) is not None:
            return why
    for above, name in zip(["", *parts], parts, strict=False):
        if name in places.CODE or _PYTHON.fullmatch(name) or (above == ".cache" and name in places.CACHED):
            return _CODE
    return None
