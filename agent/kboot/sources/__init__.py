"""Where bytes come from: Hubs, web servers, object stores, folders. The only package that uses the network."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from urllib.parse import unquote, urlsplit

from kboot.errors import ProfileError, SourceError
from kboot.profile.types import CheckpointAsk, FetchAsk
from kboot.sources.fleet_auth import FleetKey
from kboot.sources.http import Client
from kboot.sources.hub import DEFAULT_ENDPOINT, Hub
from kboot.sources.local import Local
from kboot.sources.patience import OnWait, Patience, always, wait_silently
from kboot.sources.peers import Peer
from kboot.sources.plain import Plain
from kboot.sources.s3 import S3
from kboot.sources.secrets import without_query
from kboot.sources.tokens import Token, find_token
from kboot.sources.types import Found, Source
from kboot.values import dataclass


@dataclass(frozen=True, slots=True)
class Opening:
    """What a kind of source is made from."""

    fetch: FetchAsk
    env: Mapping[str, str]
    token_file: str
    on_wait: OnWait
    needed: Callable[[], bool] = always

    def patience(self) -> Patience:
        """How one listing or small file waits."""
        return Patience(self.on_wait, needed=self.needed)

    @property
    def endpoint(self) -> str:
        """The operator's Hub."""
        return (self.env.get("HF_ENDPOINT", "").strip() or DEFAULT_ENDPOINT).rstrip("/")

    def hub(self, endpoint: str) -> Hub:
        """A Hub endpoint; trusted when it is the operator's own."""
        trusted = endpoint.rstrip("/") == self.endpoint
        return Hub(
            endpoint,
            find_token(self.env, self.token_file) if trusted else Token(),
            self.env,
            client=Client(self.env, self.fetch.connect_timeout_s, self.fetch.stall_timeout_s),
            trusted=trusted,
            new_patience=self.patience,
        )


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of source.

    form: how it is written in a profile. open: makes it; None when the text is not of its form.
    """

    form: str
    open: Callable[[str, Opening], Source | None]


def _open_hub(text: str, opening: Opening) -> Source | None:
    return opening.hub(opening.endpoint) if text == "hub" else None


def _open_mirror(text: str, opening: Opening) -> Source | None:
    return opening.hub(text) if urlsplit(text).scheme in ("http", "https") else None


def _open_plain(text: str, opening: Opening) -> Source | None:
    parts = urlsplit(text)
    if parts.scheme not in ("http", "https") or not parts.path.endswith("/") or not parts.path.strip("/"):
        return None
    client = Client(opening.env, opening.fetch.connect_timeout_s, opening.fetch.stall_timeout_s)
    return Plain(text, client, opening.patience)


def _open_s3(text: str, opening: Opening) -> Source | None:
    parts = urlsplit(text)
    if parts.scheme != "s3" or not parts.netloc or parts.query:
        return None
    timeouts_s = (opening.fetch.connect_timeout_s, opening.fetch.stall_timeout_s)
    return S3(parts.netloc, unquote(parts.path).strip("/"), opening.env, timeouts_s, opening.patience)


def _open_local(text: str, opening: Opening) -> Source | None:  # noqa: ARG001 - the kinds share one form
    parts = urlsplit(text)
    if parts.scheme != "file" or parts.netloc or not parts.path.startswith("/"):
        return None
    return Local(unquote(parts.path).rstrip("/") or "/")


KINDS = (
    Kind("hub", _open_hub),
    Kind("https://host/folder/", _open_plain),  # before mirrors: the slash at its end makes the difference
    Kind("https://mirror", _open_mirror),
    Kind("s3://bucket/prefix", _open_s3),
    Kind("file:///path", _open_local),
)


def open_sources(
    checkpoint: CheckpointAsk,
    fetch: FetchAsk,
    env: Mapping[str, str],
    token_file: str = "",
    on_wait: OnWait = wait_silently,
    needed: Callable[[], bool] = always,
) -> tuple[Source, ...]:
    """Return the sources of a checkpoint in order of preference; nothing is asked of them yet.

    env: HF_ENDPOINT, HF_TOKEN, proxies and certificates are read from here. on_wait: told whenever a listing has to
    wait (rate limit, resolver not up yet); from the thread that asks. needed: whether there is no doing without a
    listing; see Patience.

    Raises:
        ProfileError: code "source-not-valid". SourceError: a URL or the token file is not valid.
    """
    opening = Opening(fetch, env, token_file, on_wait, needed)
    return tuple(_open(text, opening) for text in checkpoint.sources)


def open_peers(nodes: Sequence[tuple[str, str, int]], key: FleetKey, stall_timeout_s: float) -> tuple[Peer, ...]:
    """Return the other nodes of a fleet as sources of bytes; nothing is asked of them yet. nodes: name, host, port."""
    return tuple(Peer(name, host, port, key, stall_timeout_s) for name, host, port in nodes)


def list_checkpoint(sources: Sequence[Source], repo: str, revision: str) -> tuple[Found, Source]:
    """Return the listing of the first source that may be trusted with one, and that source.

    Raises:
        SourceError: it cannot be had; code "no-trusted-source" when there is no such source.
    """
    for source in sources:
        if source.trusted:
            return source.list(repo, revision), source
    raise SourceError(
        "no-trusted-source",
        f"none of {len(sources)} sources may be trusted for the hashes of {repo}",
        where=tuple(source.name for source in sources),
        hint='add "hub" to checkpoint.sources, or set HF_ENDPOINT to the mirror you trust',
    )


def _open(text: str, opening: Opening) -> Source:
    with suppress(ValueError):  # of urlsplit: what stands in brackets is no address
        for kind in KINDS:
            if source := kind.open(text, opening):
                return source
    raise ProfileError(
        "source-not-valid",
        f"checkpoint.sources has {without_query(text) if '://' in text else text!r}, "
        f"wanted one of {', '.join(kind.form for kind in KINDS)}",
    )
