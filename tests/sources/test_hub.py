"""A Hub source, and how a profile's words become sources."""

from __future__ import annotations

from pathlib import Path

import pytest

from fakes.checkpoints import remote
from fakes.fetching import sources_of
from fakes.hub import COMMIT, REPO, FakeHub, Status
from kboot.errors import ProfileError, SourceError
from kboot.profile.types import CheckpointAsk, FetchAsk
from kboot.sources import list_checkpoint, open_sources
from kboot.sources.hub import Hub
from kboot.sources.local import Local
from kboot.sources.types import Source

FILES = {"config.json": b'{"a": 1}', "model-1.safetensors": b"x" * 1000}
CONFIG = remote("config.json", FILES["config.json"])
TOKEN = {"HF_TOKEN": "hf_secretsecret"}


def opened(*sources: str, env: dict[str, str] | None = None) -> tuple[Source, ...]:
    return open_sources(CheckpointAsk(repo=REPO, sources=sources), FetchAsk(), env or {})


def test_words_become_sources() -> None:
    """hub, a mirror's URL and a folder, in order; only the operator's own endpoint is trusted."""
    found = opened("hub", "https://mirror.example/", "file:///mnt/ckpt")

    assert ["hub https://huggingface.co", "https://mirror.example", "file:///mnt/ckpt"] == [s.name for s in found]
    assert [True, False, False] == [s.trusted for s in found]
    assert [Hub, Hub, Local] == [type(s) for s in found]


def test_the_endpoint_is_the_operators_choice() -> None:
    """HF_ENDPOINT is the Hub, also where a profile names it as a mirror; empty counts as unset."""
    mirror = "https://mirror.example/hf"
    found = opened("hub", mirror, env={"HF_ENDPOINT": f"{mirror}/"})

    assert [f"hub {mirror}"] * 2 == [s.name for s in found]
    assert "hub https://huggingface.co" == opened("hub", env={"HF_ENDPOINT": " "})[0].name


@pytest.mark.parametrize("word", ["gs://bucket/x", "hubb", "/mnt/ckpt", "file://host/x", "http://[::1", ""])
def test_a_word_that_is_no_source_is_named(word: str) -> None:
    """The error says what was written and what is allowed."""
    with pytest.raises(ProfileError) as caught:
        opened(word)

    assert "source-not-valid" == caught.value.code
    assert "file:///path" in caught.value.message


def test_only_a_trusted_source_is_asked_for_hashes() -> None:
    """A mirror's listing is never taken; without a Hub among the sources there is none."""
    with FakeHub(FILES) as hub, FakeHub(FILES) as mirror:
        found, source = list_checkpoint(sources_of(hub.url, mirror.url)[::-1], REPO, "main")
        with pytest.raises(SourceError) as caught:
            list_checkpoint(opened(mirror.url), REPO, "main")

    assert COMMIT == found.commit and source.trusted
    assert [] == mirror.requests
    assert "no-trusted-source" == caught.value.code


def test_the_token_is_for_the_hub_alone() -> None:
    """A mirror gets no token, whatever is in the environment."""
    with FakeHub(FILES) as hub, FakeHub(FILES) as mirror:
        for source in sources_of(hub.url, mirror.url, env=TOKEN):
            source.read(REPO, COMMIT, CONFIG, 1000)

    assert "Bearer hf_secretsecret" == hub.requests[0].headers["authorization"]
    assert "authorization" not in mirror.requests[0].headers


def test_no_token_in_clear_text() -> None:
    """B031: an http endpoint elsewhere gets none; only loopback does."""
    lines = (Path(__file__).parents[1] / "cases/B031/env").read_text().splitlines()
    env = dict(line.split("=", 1) for line in lines)
    (source,) = opened("hub", env=env)

    assert isinstance(source, Hub)
    assert "" == source._token.value


def test_a_small_file_is_read_whole() -> None:
    """read() gives the content; one that is larger than expected is not even asked for."""
    with FakeHub(FILES) as hub:
        (source,) = sources_of(hub.url)
        assert FILES["config.json"] == source.read(REPO, COMMIT, CONFIG, 8)
        with pytest.raises(SourceError) as caught:
            source.read(REPO, COMMIT, CONFIG, 7)

    assert "file-too-large" == caught.value.code
    assert 1 == len(hub.requests)


def test_a_small_file_survives_one_failure() -> None:
    """read() asks again after a 503."""
    with FakeHub(FILES) as hub:
        hub.fault("config.json", Status(503))
        assert FILES["config.json"] == sources_of(hub.url)[0].read(REPO, COMMIT, CONFIG, 1000)


def test_a_listing_survives_a_rate_limit() -> None:
    """429 at start is waited out, and the wait is told."""
    said: list[str] = []
    with FakeHub(FILES) as hub:
        hub.api_status = [Status(429, {"Retry-After": "0"})]
        ask = CheckpointAsk(repo=REPO, sources=("hub",))
        (source,) = open_sources(ask, FetchAsk(), {"HF_ENDPOINT": hub.url}, on_wait=lambda why, _: said.append(why))
        assert COMMIT == source.list(REPO, "main").commit

    assert 1 == len(said) and "429" in said[0]


@pytest.mark.parametrize("name", ["HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"])
def test_offline_means_offline(name: str) -> None:
    """No request, and a clear error that names the variable; the Hub's own wins, as in its client."""
    with FakeHub(FILES) as hub:
        with pytest.raises(SourceError) as caught:
            sources_of(hub.url, env={name: "1"})[0].list(REPO, "main")
        assert [] == hub.requests
        assert sources_of(hub.url, env={"HF_HUB_OFFLINE": "0", "TRANSFORMERS_OFFLINE": "1"})[0].list(REPO, "main")

    assert "offline-mode" == caught.value.code and name in caught.value.message


@pytest.mark.parametrize(
    "location", ["", "http://127.0.0.1:1/x", "/loop", "http://[::1", "http://127.0.0.1:99999/x", "file:///x"]
)
def test_redirects_end(location: str) -> None:
    """A redirect to nowhere, or in a circle, is an error after a bounded number of hops."""
    with FakeHub(FILES) as hub:
        hub.every_file = Status(302, {"Location": location or ""})
        if location == "/loop":
            hub.every_file = Status(302, {"Location": f"/{REPO}/resolve/{COMMIT}/config.json"})
        with pytest.raises(SourceError) as caught:
            sources_of(hub.url)[0].open(REPO, COMMIT, CONFIG, 0)

    assert caught.value.code in ("redirect-not-valid", "connection-refused")
    assert 6 >= len(hub.requests)


def test_https_is_not_left_for_http() -> None:
    """A redirect from https to http would lose what TLS gave."""
    with FakeHub(FILES, tls=True) as hub:
        hub.every_file = Status(302, {"Location": "http://127.0.0.1:1/x"})
        from fakes.hub import TLS

        (source,) = sources_of(hub.url, env={"SSL_CERT_FILE": str(TLS / "ca.pem")})
        with pytest.raises(SourceError) as caught:
            source.open(REPO, COMMIT, CONFIG, 0)

    assert "redirect-not-valid" == caught.value.code
