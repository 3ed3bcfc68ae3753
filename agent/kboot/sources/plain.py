"""How does a web server without any knowledge of Hubs, only with files below a URL, deliver a checkpoint?"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from urllib.parse import quote

from kboot.checkpoint import RemoteFile
from kboot.errors import SourceError
from kboot.host.clock import monotonic_s, unix_s
from kboot.sources.asking import check_small, follow, read_answer, read_whole
from kboot.sources.framing import Frame, frame
from kboot.sources.http import Answer, Client, HttpBody
from kboot.sources.hub_listing import LISTING_S
from kboot.sources.patience import Patience
from kboot.sources.places import listing_there, places_of
from kboot.sources.proxies import origin_of
from kboot.sources.refusals import Asked, refusal
from kboot.sources.secrets import without_query
from kboot.sources.types import Found


class Plain:
    """A base URL: of plain files, a snapshot, one repository's cache folder, or a whole Hugging Face cache.

    Where refs/ and trees/ are there, it can say which files a commit has; its word is not trusted for hashes.
    """

    trusted = False

    def __init__(self, base: str, client: Client, new_patience: Callable[[], Patience]) -> None:
        """Make one; nothing is asked yet. new_patience: how one listing or small file waits."""
        self._base = base.rstrip("/") + "/"
        self.name = without_query(self._base)
        self._origin = origin_of(self._base)
        self._client = client
        self._new_patience = new_patience
        self._stop = threading.Event()
        self._worked = 0  # which of places_of() had the last file

    def list(self, repo: str, revision: str) -> Found:
        """Return what refs/ and trees/ there say. See Source."""
        return self._new_patience().answer(lambda: self._list_once(repo, revision), self._stop)

    def read(self, repo: str, commit: str, file: RemoteFile, limit_bytes: int) -> bytes:
        """Return a small file's bytes, unproven. See Source."""
        check_small(file, limit_bytes)
        return self._new_patience().answer(lambda: read_whole(self.open(repo, commit, file, 0), file), self._stop)

    def open(self, repo: str, commit: str, file: RemoteFile, start: int, end: int | None = None) -> HttpBody:
        """Ask for bytes [start, end) where the last file was, then where else it may be. See Source."""
        places = places_of(repo, commit, file)
        asked = Asked(self._origin.address, repo, commit, file.path)
        for number in sorted(range(len(places)), key=lambda n: n != self._worked):
            answer = follow(self._client, self._base + quote(places[number]), start, end)
            if answer.status in (404, 410):
                answer.text()
                continue
            found = self._judge(answer, asked, file.size_bytes, start, end)
            self._worked = number
            return answer.body(found)
        raise SourceError("file-not-found", f"{self.name} has no {file.path}", where=places)

    def interrupt(self) -> None:
        """End every open body and refuse new ones. See Source."""
        self._stop.set()
        self._client.interrupt()

    def close(self) -> None:
        """Close idle connections. See Source."""
        self._client.close()

    def _list_once(self, repo: str, revision: str) -> Found:
        asked, until_s = Asked(self._origin.address, repo, revision), monotonic_s() + LISTING_S
        return listing_there(self.name, repo, revision, partial(self._small, asked, until_s))

    def _small(self, asked: Asked, until_s: float, path: str, limit_bytes: int) -> bytes:
        """Return a small file of the folder itself; empty where there is none."""
        answer = follow(self._client, self._base + quote(path), 0, None, until_s=until_s)
        if answer.status in (404, 410):
            answer.text()
            return b""
        if answer.status != 200:
            raise refusal(answer.status, answer.headers, answer.text(), asked, unix_s())
        data = read_answer(answer, limit_bytes)
        if data is None:
            raise SourceError("listing-not-valid", f"{path} there is larger than {limit_bytes} bytes")
        return data

    def _judge(self, answer: Answer, asked: Asked, size_bytes: int, start: int, end: int | None) -> Frame:
        if answer.status not in (200, 206, 416):
            raise refusal(answer.status, answer.headers, answer.text(), asked, unix_s())
        try:
            return frame(answer.status, answer.headers, start, end, size_bytes)
        except SourceError as exc:
            answer.drop()
            exc.where = (f"{asked.what} from {self._origin.address}", *exc.where)
            raise
