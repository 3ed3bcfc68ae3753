"""One HTTP question, asked to its end."""

from __future__ import annotations

import gzip

import pytest

from fakes.checkpoints import MemoryBody, remote
from fakes.hub import COMMIT, REPO, FakeHub, Headers
from fakes.lying import LyingServer
from kboot.errors import SourceError
from kboot.sources.asking import check_small, fill, follow, read_answer, read_whole
from kboot.sources.http import Client


def redirect(to: str, path: str = "/a") -> dict[str, object]:
    return {"match": {"method": "*", "path": path}, "times": 99, "reply": {"status": 302, "headers": {"Location": to}}}


def test_redirects_are_followed_and_the_range_goes_along() -> None:
    """Relative ones too; whoever answers last is who answered."""
    end = {
        "match": {"method": "*", "path": "/b"},
        "times": 9,
        "reply": {"status": 200, "headers": {}, "body": {"text": "here"}},
    }
    with LyingServer([redirect("/b"), end]) as server:
        answer = follow(Client({}, 30, 60), f"{server.url}/a", 3, 9, lambda _: "secret")

        assert (200, f"{server.url}/b", "here") == (answer.status, answer.url, answer.text())
        assert ["bytes=3-8"] * 2 == [r.range for r in server.requests]
        assert ["Bearer secret"] * 2 == [r.headers.get("authorization") for r in server.requests]


@pytest.mark.parametrize(
    ("to", "path"), [("/b c", "/b%20c"), ("/\u00c3\u00bc", "/%C3%BC"), ("/b%20c?d=%2F", "/b%20c?d=%2F")]
)
def test_a_redirect_leads_where_a_browser_would_go(to: str, path: str) -> None:
    """Blanks and UTF-8 that stand there as they are are quoted, once."""
    with LyingServer([redirect(to)]) as server:
        answer = follow(Client({}, 30, 60), f"{server.url}/a", 0, None)

        assert (404, f"{server.url}{path}") == (answer.status, answer.url)


@pytest.mark.parametrize("to", ["/a", "", "http://[::1/b"])
def test_redirects_that_lead_nowhere_end(to: str) -> None:
    """In a circle, without a place to go to, or to what is no URL."""
    with LyingServer([redirect(to)]) as server, pytest.raises(SourceError) as caught:
        follow(Client({}, 30, 60), f"{server.url}/a", 0, None)

    assert "redirect-not-valid" == caught.value.code


def test_a_small_file_is_read_to_its_listed_end() -> None:
    """Fewer or more bytes than the listing says are an error that may pass; one too large is never asked for."""
    file = remote("config.json", b"12345")
    assert b"12345" == read_whole(MemoryBody(b"12345", 0, None), file)
    for wrong in (b"1234", b"123456"):
        with pytest.raises(SourceError) as caught:
            read_whole(MemoryBody(wrong, 0, None), file)
        assert ("short-body", True) == (caught.value.code, caught.value.retry)
    check_small(file, 5)
    with pytest.raises(SourceError) as large:
        check_small(file, 4)
    assert "file-too-large" == large.value.code


class Drip(MemoryBody):
    """One byte at a time."""

    def readinto(self, buffer: memoryview) -> int:
        return super().readinto(buffer[:1])


def test_what_comes_in_drops_is_not_waited_for_without_end() -> None:
    """A byte every 20 s is no silence for a connection; a minute, and what 64 KiB/s take, is the time for all."""
    times = iter(range(0, 10_000, 20))
    with pytest.raises(SourceError, match="a came with 4 of 65536 bytes") as caught:
        fill(Drip(b"x" * 65536, 0, None), memoryview(bytearray(65536)), "a", lambda: float(next(times)))

    assert ("source-silent", True) == (caught.value.code, caught.value.retry)


def answered(content: bytes, encoding: str, limit_bytes: int = 1000) -> bytes | None:
    """Read an answer that says it is packed so."""
    with FakeHub({"a": content}) as hub:
        hub.every_file = Headers({"Content-Encoding": encoding})
        return read_answer(Client({}, 30, 60).get(f"{hub.url}/{REPO}/resolve/{COMMIT}/a", {}), limit_bytes)


@pytest.mark.parametrize("encoding", ["gzip", "GZIP", "x-gzip"])
def test_an_answer_that_comes_packed_is_unpacked(encoding: str) -> None:
    """Within the limit that holds for what is in it."""
    packed = gzip.compress(b"x" * 1000)

    assert b"x" * 1000 == answered(packed, encoding)
    assert None is answered(gzip.compress(b"x" * 1001), encoding)
    assert None is answered(packed, encoding, len(packed) - 1)


def test_an_answer_as_it_is_comes_as_it_is() -> None:
    """Also where that is said, or nothing is."""
    assert [b"as it is"] * 3 == [answered(b"as it is", encoding) for encoding in ("identity", "", " ")]


@pytest.mark.parametrize(
    ("content", "encoding"),
    [
        (b"x", "br"),
        (b"x", "gzip, gzip"),
        (b"no gzip", "gzip"),
        (gzip.compress(b"cut", mtime=0)[:-1], "gzip"),
        (b"", "gzip"),
    ],
)
def test_what_cannot_be_unpacked_is_refused(content: bytes, encoding: str) -> None:
    """Another way, no such thing, an end that is missing."""
    with pytest.raises(SourceError) as caught:
        answered(content, encoding)

    assert "transformed-body" == caught.value.code
