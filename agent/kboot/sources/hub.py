"""How is a Hub, or a mirror that speaks like one, asked for a listing and for bytes?"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from urllib.parse import quote

from kboot.checkpoint import RemoteFile
from kboot.errors import SourceError
from kboot.host.clock import unix_s
from kboot.sources.asking import check_small, follow, read_whole
from kboot.sources.framing import Frame, frame
from kboot.sources.http import Answer, Client, HttpBody
from kboot.sources.hub_listing import ListingAsk, list_once
from kboot.sources.patience import Patience
from kboot.sources.proxies import origin_of
from kboot.sources.refusals import Asked, refusal
from kboot.sources.secrets import mask, without_query
from kboot.sources.tokens import Token, may_see_token
from kboot.sources.types import Found, HubAccess

DEFAULT_ENDPOINT = "https://huggingface.co"


class Hub:
    """A Hub endpoint. The operator's own is trusted for listings and gets the token; a mirror only delivers bytes."""

    def __init__(
        self,
        endpoint: str,
        token: Token,
        env: Mapping[str, str],
        *,
        client: Client,
        trusted: bool,
        new_patience: Callable[[], Patience],
    ) -> None:
        """Make one; nothing is asked yet. new_patience: how one listing or small file waits."""
        self.endpoint = endpoint.rstrip("/")
        self.trusted = trusted
        shown = without_query(self.endpoint)
        self.name = f"hub {shown}" if trusted else shown
        self._origin = origin_of(self.endpoint)
        self._token = token if trusted and may_see_token(self._origin) else Token()
        self._env = env
        self._client = client
        self._new_patience = new_patience
        self._stop = threading.Event()
        self._links: dict[str, str] = {}  # resolve URL → where it led last, on another origin
        self._links_lock = threading.Lock()

    def list(self, repo: str, revision: str) -> Found:
        """Return the commit and its files. See Source."""
        name = "HF_HUB_OFFLINE" if self._env.get("HF_HUB_OFFLINE") else "TRANSFORMERS_OFFLINE"
        if self._env.get(name, "").upper() in ("1", "ON", "YES", "TRUE"):
            raise SourceError("offline-mode", f"{name} is set, so the Hub may not be asked", hint=f"unset {name}")
        asked = Asked(self._origin.address, repo, revision, token=self._token.origin)
        ask = ListingAsk(self.endpoint, self._token.value, asked)
        return self._new_patience().answer(lambda: list_once(self._client, ask), self._stop)

    def read(self, repo: str, commit: str, file: RemoteFile, limit_bytes: int) -> bytes:
        """Return a small file's bytes, unproven. See Source."""
        check_small(file, limit_bytes)
        return self._new_patience().answer(lambda: read_whole(self.open(repo, commit, file, 0), file), self._stop)

    def open(self, repo: str, commit: str, file: RemoteFile, start: int, end: int | None = None) -> HttpBody:
        """Ask for bytes [start, end). A link that has expired is asked for again, once. See Source."""
        url = self._resolve_url(repo, commit, file)
        with self._links_lock:
            link = self._links.get(url)
        answer = self._follow(link or url, start, end)
        if link and answer.status in (401, 403):
            answer.drop()
            link = None
            answer = self._follow(url, start, end)
        found = self._judge(answer, Asked(self._origin.address, repo, commit, file.path), file, start, end)
        with self._links_lock:
            if origin_of(answer.url) == self._origin:
                self._links.pop(url, None)
            else:
                self._links[url] = answer.url
        return answer.body(found)

    def direct_link(self, repo: str, commit: str, file: RemoteFile) -> str:
        """Return where the Hub redirects to, or its own URL where it needs no token. See HasLinks."""
        answer = self._follow(self._resolve_url(repo, commit, file), 0, 1)
        self._judge(answer, Asked(self._origin.address, repo, commit, file.path), file, 0, 1)
        answer.drop()
        if self._token.value and origin_of(answer.url) == self._origin:
            raise SourceError("link-needs-token", f"{self._origin.address} gives {file.path} only with the token")
        return answer.url

    def api_headers(self, repo: str) -> Mapping[str, str]:
        """Return the headers of one answer of the Hub's API about a repository: they tell how much may be asked."""
        headers = {"Authorization": f"Bearer {self._token.value}"} if self._token.value else {}
        answer = self._client.get(f"{self.endpoint}/api/models/{quote(repo)}", headers)
        answer.drop()
        return answer.headers

    def access(self) -> HubAccess:
        """Return how this node may ask it. See IsHub."""
        return HubAccess(self.endpoint, self._token.value)

    def interrupt(self) -> None:
        """End every open body and refuse new ones. See Source."""
        self._stop.set()
        self._client.interrupt()

    def close(self) -> None:
        """Close idle connections. See Source."""
        self._client.close()

    def _resolve_url(self, repo: str, commit: str, file: RemoteFile) -> str:
        return f"{self.endpoint}/{quote(repo)}/resolve/{quote(commit, safe='')}/{quote(file.path)}"

    def _follow(self, url: str, start: int, end: int | None) -> Answer:
        """Ask, and go where redirects lead. Only the operator's own endpoint ever sees the token."""
        return follow(self._client, url, start, end, lambda origin: self._token.value if origin == self._origin else "")

    def _judge(self, answer: Answer, asked: Asked, file: RemoteFile, start: int, end: int | None) -> Frame:
        """Return which bytes the answer carries, or raise what is wrong with it."""
        origin = origin_of(answer.url)
        if answer.status not in (200, 206, 416):
            linked = origin != self._origin
            asked = Asked(
                origin.address, asked.repo, asked.revision, asked.path, "" if linked else self._token.origin, linked
            )
            raise refusal(answer.status, answer.headers, answer.text(), asked, unix_s())
        try:
            _check_commit(answer.headers, asked)
            return frame(answer.status, answer.headers, start, end, file.size_bytes)
        except SourceError as exc:
            answer.drop()
            exc.where = (f"{asked.what} from {origin.address}", *exc.where)
            raise


def _check_commit(headers: Mapping[str, str], asked: Asked) -> None:
    commit = headers.get("x-repo-commit", asked.revision)
    if commit != asked.revision:
        said = f"it answers with commit {mask(commit[:12])}, asked for {asked.revision[:12]}"
        raise SourceError("other-commit", said)
