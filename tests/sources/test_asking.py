"""One HTTP question, asked to its end."""

from __future__ import annotations

import pytest

from fakes.checkpoints import MemoryBody, remote
from fakes.lying import LyingServer
from kboot.errors import SourceError
from kboot.sources.asking import check_small, follow, read_whole
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


@pytest.mark.parametrize("to", ["/a", ""])
def test_redirects_that_lead_nowhere_end(to: str) -> None:
    """In a circle, or without a place to go to."""
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
