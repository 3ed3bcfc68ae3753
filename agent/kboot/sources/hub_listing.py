"""Which commit is behind a revision, and which files with which hashes does it hold? Asked through huggingface_hub."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any, get_type_hints
from urllib.parse import quote

from kboot.checkpoint import RemoteFile
from kboot.errors import SourceError
from kboot.host.clock import unix_s
from kboot.sources.failures import explain_network
from kboot.sources.listing_bounds import LISTING_BYTES, LISTING_S, Bounds, answer_or_leave
from kboot.sources.refusals import Asked, is_commit, refusal
from kboot.sources.secrets import mask
from kboot.sources.tls import tls_context
from kboot.sources.types import Found, is_inside

_HEX = frozenset("0123456789abcdef")
_LARGE_BYTES = 16 << 20  # the Hub keeps nothing of that size in git itself
_TEXT_BYTES = 4096
_ERRORS_ONLY = 40  # of the logging module
_TREE = "recursive=true&expand=false"
_one_at_a_time = threading.Lock()  # huggingface_hub has one HTTP client for the whole process


class _Answered(Exception):
    """A status that is not a success, seen before huggingface_hub sees it and waits on its own terms."""

    def __init__(self, status: int, headers: Mapping[str, str], text: str) -> None:
        super().__init__(status)
        self.status = status
        self.headers = headers
        self.text = text


@dataclass(frozen=True, slots=True)
class ListingAsk:
    """endpoint: without a slash at its end. token: empty = none is sent. asked: for messages. stop: set = leave it.

    seconds, size_bytes: of all its pages.
    """

    endpoint: str
    token: str
    asked: Asked
    env: Mapping[str, str]
    connect_timeout_s: float
    stall_timeout_s: float
    stop: threading.Event = field(default_factory=threading.Event)
    seconds: float = LISTING_S
    size_bytes: int = LISTING_BYTES


def list_once(ask: ListingAsk) -> Found:
    """Ask once, without waiting or retrying.

    Raises:
        SourceError: whatever went wrong, whatever huggingface_hub raised for it.
    """
    bounds = Bounds(ask.endpoint, ask.stop, ask.seconds, ask.size_bytes)
    return answer_or_leave(lambda: _list(ask, bounds), ask.stop, ask.seconds, bounds.too_long())


def _list(ask: ListingAsk, bounds: Bounds) -> Found:
    repo, revision = ask.asked.repo, ask.asked.revision
    with _one_at_a_time:
        try:
            bounds.check_time()
            hub = _Hub(ask, bounds)
            info = hub.revision(repo, revision)
            commit = info.get("sha") or ""
            if not is_commit(commit):
                raise SourceError(
                    "listing-not-valid", f"{ask.asked.host} gives {mask(commit[:60])!r} as the commit of {repo}"
                )
            if is_commit(revision) and commit != revision:
                raise SourceError(
                    "listing-not-valid", f"{ask.asked.host} gives commit {commit[:12]} when asked for {revision[:12]}"
                )
            entries = hub.tree(repo, commit)
        except SourceError:
            raise
        except Exception as exc:
            raise _explain(exc, ask) from exc
    return Found(str(info.get("id") or repo), commit, to_files(entries))


def to_files(entries: Iterable[Any]) -> tuple[RemoteFile, ...]:
    """Return the files of a listing, sorted by path.

    entries: objects with path, size, blob_id, lfs (sha256, size) and xet_hash; folders have no size.

    Raises:
        SourceError: "listing-without-hashes", "listing-not-valid".
    """
    files = [_to_file(entry) for entry in entries if hasattr(entry, "size")]
    paths = [file.path for file in files]
    if len(set(paths)) != len(paths):
        raise SourceError("listing-not-valid", "the listing names a file twice")
    _check_folders(paths)
    return tuple(sorted(files, key=lambda file: file.path))


def _check_folders(paths: Iterable[str]) -> None:
    files = set(paths)
    for path in files:
        for folder in PurePosixPath(path).parents:
            if str(folder) in files:
                raise SourceError(
                    "listing-not-valid", f"the listing names {mask(str(folder))!r} as a file and as a folder"
                )


def _to_file(entry: Any) -> RemoteFile:
    if not is_inside(entry.path):
        raise SourceError(
            "listing-not-valid", f"the listing names {mask(str(entry.path)[:120])!r}, which is no plain relative path"
        )
    sha256 = getattr(entry.lfs, "sha256", None) if entry.lfs else None
    size = (getattr(entry.lfs, "size", None) if entry.lfs else None) or entry.size
    if not isinstance(size, int) or size < 0:
        raise SourceError("listing-not-valid", f"the listing gives {entry.path} the size {size!r}")
    blob_id = str(sha256 if entry.lfs else entry.blob_id)
    if not _is_hex(blob_id, 64 if entry.lfs else 40) or (not entry.lfs and size >= _LARGE_BYTES):
        raise _without_hashes(f"the listing has no SHA-256 for {entry.path} ({size} bytes)")
    return RemoteFile(entry.path, size, blob_id, sha256, getattr(entry, "xet_hash", None))


def _is_hex(text: str, digits: int) -> bool:
    return len(text) == digits and set(text) <= _HEX


def _without_hashes(message: str) -> SourceError:
    return SourceError(
        "listing-without-hashes",
        message,
        hint="ask the Hub itself for the listing; bytes may come from this endpoint all the same "
        '(sources = ["hub", "https://mirror"])',
    )


class _Hub:
    """The two questions of a listing, through huggingface_hub's session.

    HfApi asks the same two, but importing it costs as much again as all the rest of a listing (70 of 130 ms).
    """

    def __init__(self, ask: ListingAsk, bounds: Bounds) -> None:
        import huggingface_hub
        from huggingface_hub import utils
        from huggingface_hub.utils.logging import set_verbosity

        set_verbosity(_ERRORS_ONLY)  # its warnings would go to stderr beside ours
        _use_client(ask, bounds)
        self._utils: Any = utils  # loads its parts when they are asked for
        self._session = huggingface_hub.get_session()
        self._headers = self._utils.build_hf_headers(token=ask.token or False, library_name="kboot")
        self._models = f"{ask.endpoint}/api/models"

    def revision(self, repo: str, revision: str) -> Mapping[str, Any]:
        """Return what the Hub says of a revision."""
        self._utils.validate_repo_id(repo)
        info = self._get(f"{self._models}/{repo}/revision/{quote(revision, safe='')}").json()
        if not isinstance(info, dict):
            raise TypeError("a revision is an object")
        return info

    def tree(self, repo: str, commit: str) -> list[Entry]:
        """Return what the Hub lists of a commit, folders left out, page by page."""
        found: list[Entry] = []
        url = f"{self._models}/{repo}/tree/{commit}?{_TREE}"
        while url:
            page = self._get(url)
            found += [_entry(item) for item in _items(page.json()) if item["type"] == "file"]
            url = page.links.get("next", {}).get("url", "")
        return found

    def _get(self, url: str) -> Any:
        return self._session.get(url, headers=self._headers)


@dataclass(frozen=True, slots=True)
class Lfs:
    """What stands in large file storage."""

    sha256: str | None
    size: int


@dataclass(frozen=True, slots=True)
class Entry:
    """A file as a Hub lists it."""

    path: str
    size: int
    blob_id: str
    lfs: Lfs | None = None
    xet_hash: str | None = None


def _items(page: object) -> list[dict[str, Any]]:
    if not isinstance(page, list) or not all(isinstance(item, dict) for item in page):
        raise TypeError("a tree is a list of objects")
    return page


def _entry(item: Mapping[str, Any]) -> Entry:
    if not isinstance(item["path"], str):
        raise TypeError("a path is text")
    stored = item.get("lfs")
    lfs = None if stored is None else Lfs(stored["oid"], stored["size"])
    return Entry(item["path"], item["size"], item["oid"], lfs, item.get("xetHash"))


def _use_client(ask: ListingAsk, bounds: Bounds) -> None:
    """Let huggingface_hub's session be one within the bounds, of whichever HTTP library its version is built on."""
    import sys

    import huggingface_hub

    client_class: Any = get_type_hints(huggingface_hub.get_session)["return"]
    stream_class = sys.modules[client_class.__module__.partition(".")[0]].SyncByteStream
    context = tls_context(ask.env)
    limits = {
        "connect": ask.connect_timeout_s,
        "read": ask.stall_timeout_s,
        "write": ask.stall_timeout_s,
        "pool": ask.stall_timeout_s,
    }

    def on_request(request: Any) -> None:
        bounds.before(request)
        request.extensions["timeout"] = limits

    def on_response(response: Any) -> None:
        bounds.after(response, stream_class)
        if response.status_code >= 400:
            text = next(response.iter_text(_TEXT_BYTES), "")
            headers = {name.lower(): value for name, value in response.headers.items()}
            raise _Answered(response.status_code, headers, text)

    def make_client() -> Any:
        return client_class(
            verify=context,
            follow_redirects=True,
            event_hooks={"request": [on_request], "response": [on_response]},
        )

    huggingface_hub.set_client_factory(make_client)


def _explain(exc: Exception, ask: ListingAsk) -> SourceError:
    host = ask.asked.host
    if isinstance(exc, KeyError):
        return _without_hashes(f"{host} lists files of {ask.asked.repo} without {exc}")
    for cause in _causes(exc):
        if isinstance(cause, _Answered):
            return refusal(cause.status, cause.headers, cause.text, ask.asked, unix_s())
        if known := explain_network(cause, host):
            return known
    name = type(exc).__name__
    if name == "HFValidationError":
        return SourceError("repo-not-valid", f"{ask.asked.repo!r} is not a repository id: wanted owner/name")
    if isinstance(exc, RecursionError):
        return SourceError("listing-not-valid", f"{host} answers with JSON that is nested too deep for a listing")
    if isinstance(exc, (ValueError, TypeError, AttributeError)):
        return SourceError("listing-not-valid", f"{host} answers with something that is not a listing", retry=True)
    return SourceError(
        "source-unreachable", f"{host} cannot be asked: {mask(str(exc)[:200]) or name}", where=(name,), retry=True
    )


def _causes(exc: BaseException) -> Iterable[BaseException]:
    """Return the exception and what led to it, the first cause first."""
    seen: list[BaseException] = []
    cause: BaseException | None = exc
    while cause is not None and cause not in seen:
        seen.append(cause)
        cause = cause.__cause__ or cause.__context__
    return reversed(seen)
