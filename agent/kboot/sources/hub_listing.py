"""Which commit is behind a revision, and which files with which hashes does it hold? Two questions to a Hub's API."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from urllib.parse import quote

from kboot.checkpoint import is_commit
from kboot.errors import SourceError
from kboot.host.clock import monotonic_s, unix_s
from kboot.jsontext import MOST_VALUES, count_values
from kboot.sources.asking import follow, joined, read_answer
from kboot.sources.entries import Entry, Lfs, to_files, without_hashes
from kboot.sources.http import Answer, Client
from kboot.sources.proxies import Origin, origin_of
from kboot.sources.refusals import NO_HUB_HINT, Asked, refusal
from kboot.sources.secrets import mask, without_query
from kboot.sources.types import Found
from kboot.values import dataclass

LISTING_S = 300.0
"""For all pages of one listing; the largest repositories of the Hub take seconds."""
LISTING_BYTES = 64 << 20
"""Of all pages, unpacked, and of their addresses; 100,000 files with hashes take 25 MiB."""

_NAME = r"\w([\w.-]{0,94}\w)?"
_REPO = re.compile(rf"({_NAME}/)?{_NAME}", re.ASCII)
_LINK = re.compile(r'<([^<>]*)>((?:"[^"]*"|[^<",])*)')
_REL = re.compile(r';\s*rel\s*=\s*"?([^";]*)', re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class ListingAsk:
    """endpoint: without a slash at its end. token: empty = none is sent. asked: for messages.

    seconds, size_bytes: of all its pages.
    """

    endpoint: str
    token: str
    asked: Asked
    seconds: float = LISTING_S
    size_bytes: int = LISTING_BYTES


def list_once(client: Client, ask: ListingAsk) -> Found:
    """Ask once, without waiting or retrying.

    Raises:
        SourceError: the repository's id is none, the Hub cannot be asked or refuses, or its answer is no listing.
    """
    host, repo, revision = ask.asked.host, ask.asked.repo, ask.asked.revision
    if not is_repo_id(repo):
        raise SourceError("repo-not-valid", f"{repo!r} is not a repository id: wanted owner/name")
    api = _Api(client, ask)
    info = api.revision()
    commit = str(info.get("sha") or "")
    if not is_commit(commit):
        raise SourceError("listing-not-valid", f"{host} gives {mask(commit[:60])!r} as the commit of {repo}")
    if is_commit(revision) and commit != revision:
        raise SourceError("listing-not-valid", f"{host} gives commit {commit[:12]} when asked for {revision[:12]}")
    spelled = str(info.get("id") or repo)
    if not is_repo_id(spelled):
        raise SourceError("listing-not-valid", f"{host} gives {mask(spelled[:120])!r} as the id of {repo}")
    return Found(spelled, commit, to_files(api.tree(commit)))


def is_repo_id(text: str) -> bool:
    """Return whether a Hub may have a repository of that id, by the rules of huggingface_hub's validate_repo_id.

    One or two names of at most 96 ASCII letters, digits, '_', '-' and '.', which begin and end with none of the last
    two; nowhere "--" or "..", and no ".git" at the end.
    """
    return bool(_REPO.fullmatch(text)) and "--" not in text and ".." not in text and not text.endswith(".git")


def next_page(link: str) -> str:
    """Return where a Link header says the next page is; empty where it does not."""
    for url, about in _LINK.findall(link):
        rel = _REL.search(about)
        if rel and "next" in rel[1].lower().split():
            return str(url)
    return ""


class _Api:
    """The API of one Hub, for one listing. Only the endpoint itself ever sees the token."""

    def __init__(self, client: Client, ask: ListingAsk) -> None:
        self._client = client
        self._ask = ask
        self._origin = origin_of(ask.endpoint)
        self._url = f"{ask.endpoint}/api/models/{ask.asked.repo}"
        self._until_s = monotonic_s() + ask.seconds
        self._left_bytes = ask.size_bytes

    def revision(self) -> Mapping[str, Any]:
        """Return what the Hub says of the revision."""
        _, info = self._get(f"{self._url}/revision/{quote(self._ask.asked.revision, safe='')}")
        if not isinstance(info, dict):
            raise self._no_listing()
        return info

    def tree(self, commit: str) -> list[Entry]:
        """Return what the Hub lists of a commit, folders left out, page by page."""
        found: list[Entry] = []
        seen: set[str] = set()
        url = f"{self._url}/tree/{commit}?recursive=true&expand=false"
        while url:
            seen.add(url)
            answer, page = self._get(url)
            found += self._entries(page)
            url = self._next(answer)
            if url in seen:
                raise self._invalid(f"names a page twice: {without_query(url)!r}")
        return found

    def _entries(self, page: object) -> list[Entry]:
        if not isinstance(page, list):
            raise self._no_listing()
        try:
            return [_entry(item) for item in page if item["type"] == "file"]
        except KeyError as exc:
            raise without_hashes(f"{self._ask.asked.host} lists files of {self._ask.asked.repo} without {exc}") from exc
        except TypeError as exc:
            raise self._no_listing() from exc

    def _next(self, answer: Answer) -> str:
        named = next_page(answer.every("link"))
        if not named:
            return ""
        url = joined(answer.url, named)
        if url is None or origin_of(url) not in (self._origin, origin_of(answer.url)):
            raise self._invalid(f"names {mask(named[:200])!r} as its next page, which is another server's")
        return url

    def _get(self, url: str) -> tuple[Answer, object]:
        """Return an answer and the value of its JSON."""
        try:
            answer = follow(self._client, url, 0, None, self._token_for, self._until_s)
            if answer.status != 200:
                raise refusal(answer.status, answer.headers, answer.text(), self._asked(answer), unix_s())
            self._left_bytes -= len(url)
            data = read_answer(answer, max(0, self._left_bytes))
        except SourceError as exc:
            if exc.code == "source-silent" and monotonic_s() >= self._until_s:
                seconds = self._ask.seconds
                raise SourceError(
                    "source-silent", f"{self._origin.address} did not end its listing in {seconds:.0f} s"
                ) from exc
            raise
        if data is None:
            raise self._invalid(f"is larger than {self._ask.size_bytes} bytes")
        self._left_bytes -= len(data)
        if count_values(data) > MOST_VALUES:
            raise self._invalid(f"has a page of more than {MOST_VALUES} values")
        try:
            return answer, json.loads(data)
        except RecursionError as exc:
            host = self._ask.asked.host
            raise SourceError(
                "listing-not-valid", f"{host} answers with JSON that is nested too deep for a listing"
            ) from exc
        except ValueError as exc:
            raise self._no_listing() from exc

    def _token_for(self, origin: Origin) -> str:
        return self._ask.token if origin == self._origin else ""

    def _asked(self, answer: Answer) -> Asked:
        """Return what was asked of whoever answered: the Hub, or where it redirects to, without the token."""
        origin = origin_of(answer.url)
        asked = self._ask.asked
        return asked if origin == self._origin else replace(asked, host=origin.address, token="")

    def _invalid(self, what: str) -> SourceError:
        return SourceError("listing-not-valid", f"the listing of {self._origin.address} {what}")

    def _no_listing(self) -> SourceError:
        host = self._ask.asked.host
        said = f"{host} answers with something that is not a listing"
        return SourceError("listing-not-valid", said, hint=NO_HUB_HINT, retry=True)


def _entry(item: Mapping[str, Any]) -> Entry:
    stored = item.get("lfs")
    lfs = None if stored is None else Lfs(stored["oid"], stored["size"])
    return Entry(item["path"], item["size"], item["oid"], lfs, item.get("xetHash"))
