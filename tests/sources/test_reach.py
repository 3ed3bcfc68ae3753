"""Sources asked for the beginning of one file, on loopback."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from fakes.checkpoints import remote
from fakes.fetching import sources_of
from fakes.hub import COMMIT, REPO, FakeHub, Stall, Status
from kboot.answers import RateLimit
from kboot.errors import SourceError
from kboot.sources.dial import AddressInfo
from kboot.sources.hub import Hub
from kboot.sources.proxies import Origin
from kboot.sources.reach import Sample, ask_limit, families_of, limit_of, origin_in, reach, reach_all

CASES = Path(__file__).parents[1] / "cases"
FILES = {"model-1.safetensors": b"x" * 3_000_000}
FILE = remote("model-1.safetensors", FILES["model-1.safetensors"])


def find() -> Sample:
    """Return the one file."""
    return Sample(REPO, COMMIT, FILE)


def test_a_source_gives_the_first_mebibyte_and_no_more() -> None:
    """Size, time and the families of the host's addresses are told; the rest of the file is not asked for."""
    with FakeHub(FILES) as hub:
        (source,) = sources_of(hub.url)
        answer = reach(source, find, {})
        (asked,) = hub.requests

    assert ("", 1 << 20, (("IPv4", True),)) == (answer.code, answer.size_bytes, answer.families)
    assert "bytes=0-1048575" == asked.range
    assert answer.seconds > 0


def test_a_gated_repository_is_told_from_a_missing_token() -> None:
    """B025: 403 GatedRepo names the repository and where the token comes from, and never the token; one request."""
    with FakeHub(FILES) as hub:
        hub.every_file = Status(403, {"X-Error-Code": "GatedRepo"})
        (source,) = sources_of(hub.url, env={"HF_TOKEN": "hf_secretsecret"})
        answer = reach(source, find, {})
        requests = len(hub.requests)

    assert ("auth-gated", 1) == (answer.code, requests)
    assert REPO in answer.message
    assert "HF_TOKEN" in answer.message
    assert "hf_secret" not in f"{answer.message}{answer.hint}"


def test_a_source_that_wants_to_be_left_alone_says_how_long() -> None:
    """429 with Retry-After is told with its time."""
    with FakeHub(FILES) as hub:
        hub.every_file = Status(429, {"Retry-After": "210"})
        (source,) = sources_of(hub.url)
        answer = reach(source, find, {})

    assert ("rate-limited", 210) == (answer.code, answer.wait_s)


def test_every_source_is_asked_and_one_that_is_away_leaves_the_others() -> None:
    """The answers stand in the sources' order."""
    with FakeHub(FILES) as away:
        gone = away.url
    with FakeHub(FILES) as hub:
        answers = reach_all(sources_of(gone, hub.url), find, {}, 60)

    assert ["connection-refused", ""] == [answer.code for answer in answers]


def test_a_source_that_gives_no_answer_in_time_is_named() -> None:
    """A thread that waits for bytes is left."""
    with FakeHub(FILES) as hub:
        hub.every_file = Stall(10)
        (answer,) = reach_all(sources_of(hub.url), find, {}, 0.3)

    assert "no-answer" == answer.code
    assert hub.url in answer.message


def test_an_error_of_the_listing_is_each_sources_answer() -> None:
    """Where nobody lists the repository, nothing can be asked for."""

    def nothing() -> Sample:
        raise SourceError("repo-not-found", "there is no such repository")

    with FakeHub(FILES) as hub:
        (source,) = sources_of(hub.url)
        assert "repo-not-found" == reach(source, nothing, {}).code


def test_a_proxy_hides_which_families_work() -> None:
    """With a proxy the host's own addresses are not used, so that they are not tried."""
    with FakeHub(FILES) as hub:
        (source,) = sources_of(hub.url)
        assert () == reach(source, find, {"http_proxy": "http://127.0.0.1:1"}).families


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server


def test_a_family_that_leads_nowhere_is_told_from_one_that_works(listener: socket.socket) -> None:
    """B032: the IPv6 address does not connect, the IPv4 one does; each is tried by itself."""
    names = json.loads((CASES / "B032" / "dns.json").read_text())["hub"]
    with ExitStack() as stack:
        try:
            closed = stack.enter_context(socket.create_server(("::1", 0), family=socket.AF_INET6))
        except OSError:
            pytest.skip("this machine has no IPv6")
        port_6 = closed.getsockname()[1]
    port = listener.getsockname()[1]
    found: list[AddressInfo] = [
        (socket.AF_INET6, socket.SOCK_STREAM, 6, "", ("::1", port_6)),
        (socket.AF_INET, socket.SOCK_STREAM, 6, "", (names["A"][0], port)),
    ]

    assert (("IPv4", True), ("IPv6", False)) == families_of(Origin("https", "hub", 443), lambda _host, _port: found)


def test_a_name_that_cannot_be_looked_up_has_no_families() -> None:
    """That is what the answer itself says."""

    def unknown(_host: str, _port: int) -> list[AddressInfo]:
        raise socket.gaierror(socket.EAI_NONAME, "unknown")

    assert () == families_of(Origin("https", "nowhere.invalid", 443), unknown)


@pytest.mark.parametrize(
    ("name", "host"),
    [
        ("hub https://h.example/hf", "h.example"),
        ("http://m.example:8080", "m.example"),
        ("file:///x", None),
        ("s3://b", None),
    ],
)
def test_the_host_is_in_the_sources_name(name: str, host: str | None) -> None:
    """Folders and object stores have none."""
    origin = origin_in(name)

    assert host == (origin.host if origin else None)


def test_a_hub_tells_its_limit_in_one_answer() -> None:
    """One request of the API; the headers of the real Hub are read."""
    headers = {"RateLimit": '"api";r=0;t=210', "RateLimit-Policy": '"fixed window";"api";q=500;w=300'}
    with FakeHub(FILES) as hub:
        hub.api_status = [Status(200, headers)]
        (source,) = sources_of(hub.url)
        assert isinstance(source, Hub)
        limit = ask_limit(source, REPO)

    assert limit == RateLimit(source.name, 0, 500, 210)


@pytest.mark.parametrize(
    ("headers", "limit"),
    [
        ({"ratelimit": '"api";r=499;t=120'}, RateLimit("hub", 499, None, 120)),
        ({"ratelimit": '"api";r=7'}, RateLimit("hub", 7, None, None)),
        ({"ratelimit": '"resolvers";r=1;t=2'}, None),
        ({}, None),
    ],
)
def test_a_limit_that_is_not_told_is_none(headers: dict[str, str], limit: RateLimit | None) -> None:
    """Other servers have no such header, and the Hub has others for its files."""
    assert limit == limit_of("hub", headers)
