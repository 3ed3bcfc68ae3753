from dataclasses import replace

import pytest

from kboot.sources.refusals import Asked, refusal
from kboot.sources.types import NotYet, RateLimited

ASKED = Asked("hub:443", "org/m", "main", token="HF_TOKEN")
NO_TOKEN = replace(ASKED, token="")
SHARD = replace(ASKED, path="a.safetensors")
LINKED = replace(SHARD, host="cdn:443", token="", linked=True)
PINNED = replace(ASKED, revision="9" * 40)
GATED = {"x-error-code": "GatedRepo"}


@pytest.mark.parametrize(
    ("status", "headers", "asked", "code", "retry"),
    [
        (401, {}, ASKED, "auth", False),
        (401, {"x-error-code": "RepoNotFound"}, ASKED, "auth", False),  # B027
        (401, {"x-error-code": "RepoNotFound"}, NO_TOKEN, "repo-not-found", False),
        (401, GATED, NO_TOKEN, "auth", False),
        (403, GATED, ASKED, "auth-gated", False),  # B025
        (403, {}, ASKED, "auth-forbidden", False),
        (403, {}, LINKED, "refused-by-store", False),
        (404, {"x-error-code": "RepoNotFound"}, ASKED, "repo-not-found", False),
        (404, {"x-error-code": "RevisionNotFound"}, ASKED, "revision-not-found", False),
        (404, {"x-error-code": "RevisionNotFound"}, PINNED, "revision-gone", False),  # B043
        (404, {"x-error-code": "EntryNotFound"}, SHARD, "file-not-found", False),
        (404, {}, ASKED, "not-found", False),
        (403, {"x-error-message": "Access to this resource is disabled."}, ASKED, "repo-disabled", False),
        (407, {}, ASKED, "proxy-refused", False),
        (408, {}, SHARD, "source-failing", True),
        (425, {}, SHARD, "source-failing", True),
        (429, {}, SHARD, "rate-limited", True),
        (500, {}, SHARD, "source-failing", True),
        (503, {"retry-after": "7"}, SHARD, "source-busy", True),
        (400, {}, SHARD, "unexpected-status", False),
    ],
)
def test_a_status_has_one_meaning(status: int, headers: dict[str, str], asked: Asked, code: str, retry: bool) -> None:
    """Who refuses, what and why decides the code; only what may pass is tried again."""
    error = refusal(status, headers, "", asked, 0.0)

    assert (code, retry) == (error.code, error.retry)
    assert str(status) in error.message
    assert 17 == error.status


def test_401_and_403_are_told_apart_by_name() -> None:
    """B025: a token that is not accepted and one that may not read this are different sentences, and name its place."""
    refused = refusal(401, {}, "", ASKED, 0.0)
    gated = refusal(403, GATED, "", ASKED, 0.0)

    assert "the token from HF_TOKEN is not accepted" in refused.message
    assert "it is gated, and the token from HF_TOKEN may not read it" in gated.message
    assert "scope" in (gated.hint or "")


def test_a_gated_repository_without_a_token_is_told_so() -> None:
    """The token alone would not help: its terms must be accepted first."""
    error = refusal(401, GATED, "", NO_TOKEN, 0.0)

    assert "it is gated, and no token was given" in error.message
    assert "accept its terms" in (error.hint or "")
    hint = refusal(403, GATED, "", NO_TOKEN, 0.0).hint or ""
    assert "HF_TOKEN" in hint and "scope" not in hint


def test_a_404_that_no_hub_wrote_points_to_the_endpoint() -> None:
    """A mirror's path was forgotten, or another server answers there."""
    assert "HF_ENDPOINT" in (refusal(404, {}, "<html>", ASKED, 0.0).hint or "")


def test_a_web_page_in_place_of_a_refusal_is_not_the_hubs() -> None:
    """zylon-ai/private-gpt#1854: a firewall's 403 says nothing of the token."""
    error = refusal(403, {}, "<html><body>Blocked by policy</body></html>", ASKED, 0.0)

    assert "auth-forbidden" == error.code
    assert "HF_TOKEN" not in error.message and "firewall" in (error.hint or "")


@pytest.mark.parametrize(
    ("headers", "wait_s"),
    [
        ({"retry-after": "30"}, 30.0),
        ({"retry-after": "60.5"}, 60.5),
        ({"retry-after": "Thu, 01 Jan 1970 00:01:00 GMT"}, 40.0),
        ({"retry-after": "Thu, 01 Jan 1970 00:00:00 GMT"}, 0.0),
        ({"retry-after": "soon"}, None),
        ({"ratelimit": '"api";r=0;t=55'}, 55.0),
        ({"retry-after": "9" * 30}, 604800.0),
        ({}, None),
    ],
)
def test_a_rate_limit_says_when(headers: dict[str, str], wait_s: float | None) -> None:
    """Seconds, a date, or the reset of a RateLimit header; never longer than a week."""
    error = refusal(429, headers, "", SHARD, now_unix_s=20.0)

    assert isinstance(error, RateLimited)
    assert wait_s == error.retry_after_s


def test_a_wrong_clock_is_waited_for() -> None:
    """A store that refuses a request as too skewed is not refusing the file."""
    error = refusal(403, {}, "<Error><Code>RequestTimeTooSkewed</Code></Error>", LINKED, 0.0)

    assert isinstance(error, NotYet)
    assert "clock-not-set" == error.code


@pytest.mark.parametrize(
    ("headers", "text", "said"),
    [
        ({}, "<Error><Code>AccessDenied</Code><Message>Request has expired</Message></Error>", "AccessDenied: Request"),
        ({"x-error-message": "Please log in"}, "{}", "Please log in"),
        ({}, "plain words\nmore", "plain words"),
        ({}, "your token hf_abcdefghijkl", "hf_***"),
    ],
)
def test_what_the_server_says_is_passed_on(headers: dict[str, str], text: str, said: str) -> None:
    """The server's own words stand below the message, without secrets."""
    (line,) = refusal(403, headers, text, LINKED, 0.0).where

    assert said in line


def test_html_is_not_passed_on() -> None:
    """A web page is nobody's error message."""
    assert () == refusal(502, {}, "<!DOCTYPE html><html>…", SHARD, 0.0).where


def test_what_a_store_says_is_cut() -> None:
    """Hundreds of messages of one answer would fill the report."""
    said = "".join(f"<Message>{n} {'x' * 150}</Message>" for n in range(300))
    (line,) = refusal(403, {}, said, LINKED, 0.0).where

    assert "it says: 0 xxx" == line[:14]
    assert 400 > len(line)
