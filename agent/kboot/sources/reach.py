"""Does each source of a checkpoint answer, over which address families, how fast, and how much may be asked of it?"""

from __future__ import annotations

import re
import socket
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import field, replace

from kboot.answers import RateLimit, SourceAnswer
from kboot.checkpoint import RemoteFile
from kboot.errors import KbootError, SourceError
from kboot.host.clock import monotonic_s
from kboot.sources.dial import AddressInfo, Resolve, dial, resolve
from kboot.sources.hub import Hub
from kboot.sources.proxies import Origin, origin_of, proxy_for
from kboot.sources.types import RateLimited, Source
from kboot.values import dataclass

SAMPLE_BYTES = 1 << 20
CONNECT_S = 3.0
_FAMILIES = {socket.AF_INET: "IPv4", socket.AF_INET6: "IPv6"}
_LIMIT = re.compile(r'"api";\s*r=(\d+)(?:;\s*t=(\d+))?')
_POLICY = re.compile(r'"api";\s*q=(\d+)')
_URL = re.compile(r"https?://\S+")


@dataclass(frozen=True, slots=True)
class Sample:
    """What is asked for: the largest of a listing's files, at its commit."""

    repo: str
    commit: str
    file: RemoteFile


def reach_all(
    sources: Sequence[Source], find: Callable[[], Sample], env: Mapping[str, str], timeout_s: float
) -> tuple[SourceAnswer, ...]:
    """Ask every source at the same time for the beginning of one file, and return what each answered in time.

    find: the file; asked once, and it may ask a source for its listing. A thread that hangs in a look-up is left.
    """
    found = [_Asking(source, find, env) for source in sources]
    for asking in found:
        asking.thread.start()
    until_s = monotonic_s() + timeout_s
    for asking in found:
        asking.thread.join(max(0.0, until_s - monotonic_s()))
    return tuple(asking.answer or _silent(asking.source.name, timeout_s) for asking in found)


@dataclass(slots=True)
class _Asking:
    source: Source
    find: Callable[[], Sample]
    env: Mapping[str, str]
    answer: SourceAnswer | None = None
    thread: threading.Thread = field(init=False)

    def __post_init__(self) -> None:
        self.thread = threading.Thread(target=self.run, name="reach", daemon=True)

    def run(self) -> None:
        self.answer = reach(self.source, self.find, self.env)


def _silent(name: str, timeout_s: float) -> SourceAnswer:
    hint = "a resolver, firewall or proxy does not answer: `resolvectl query HOST`, `curl -v URL`"
    return SourceAnswer(name, "no-answer", f"{name} gave no answer in {timeout_s:g} s", hint)


def reach(source: Source, find: Callable[[], Sample], env: Mapping[str, str]) -> SourceAnswer:
    """Ask one source. Errors are values here."""
    started_s = monotonic_s()
    try:
        sample = find()
        size = _read(source, sample)
    except KbootError as exc:
        wait_s = exc.retry_after_s if isinstance(exc, RateLimited) else None
        said = SourceAnswer(source.name, exc.code, exc.message, exc.hint or "", wait_s=wait_s)
    else:
        said = SourceAnswer(source.name, size_bytes=size, seconds=monotonic_s() - started_s)
    origin = origin_in(source.name)
    families: tuple[tuple[str, bool], ...] = ()
    with suppress(SourceError):  # a proxy that is not valid is what the answer itself says
        if origin is not None and proxy_for(origin, env) is None:
            families = families_of(origin)
    return replace(said, families=families)


def origin_in(name: str) -> Origin | None:
    """Return whom a source's name talks to ("hub https://host"); None for folders and object stores."""
    match = _URL.search(name)
    try:
        return origin_of(match.group()) if match else None
    except SourceError:
        return None


def families_of(origin: Origin, ask: Resolve = resolve) -> tuple[tuple[str, bool], ...]:
    """Return of each address family that the host's name has whether a connection can be made, IPv4 first."""
    try:
        found = ask(origin.host, origin.port)
    except OSError:
        return ()
    answers = []
    for family, name in _FAMILIES.items():
        addresses = [address for address in found if address[0] == family]
        if addresses:
            answers.append((name, _connects(origin, addresses)))
    return tuple(answers)


def _connects(origin: Origin, addresses: Sequence[AddressInfo]) -> bool:
    try:
        dial(origin.host, origin.port, CONNECT_S, lambda _host, _port: addresses).close()
    except KbootError:
        return False
    return True


def _read(source: Source, sample: Sample) -> int:
    end = min(SAMPLE_BYTES, sample.file.size_bytes)
    done, buffer = 0, memoryview(bytearray(64 << 10))
    with source.open(sample.repo, sample.commit, sample.file, 0, end) as body:
        while done < end and (n := body.readinto(buffer)):
            done += n
    return done


def ask_limit(hub: Hub, repo: str) -> RateLimit | None:
    """Return what a Hub says of its rate limit with one request; None where it says nothing.

    Raises:
        SourceError: it cannot be asked.
    """
    return limit_of(hub.name, hub.api_headers(repo))


def limit_of(name: str, headers: Mapping[str, str]) -> RateLimit | None:
    """Return the limit of `RateLimit: "api";r=499;t=120` and `RateLimit-Policy: "fixed window";"api";q=500;w=300`."""
    match = _LIMIT.search(headers.get("ratelimit", ""))
    if match is None:
        return None
    policy = _POLICY.search(headers.get("ratelimit-policy", ""))
    reset = match.group(2)
    return RateLimit(
        name, int(match.group(1)), int(policy.group(1)) if policy else None, int(reset) if reset is not None else None
    )
