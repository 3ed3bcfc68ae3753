from pathlib import Path

import pytest

from kboot.sources.secrets import mask, without_query

CASES = Path(__file__).parents[1] / "cases"


def test_hub_tokens_are_masked_in_relayed_lines() -> None:
    """B029: an engine that prints its token does not get it into our log."""
    line = (CASES / "B029" / "child_log.txt").read_text()

    assert "hf_EXAMPLE" in line
    assert "hf_EXAMPLE" not in mask(line)
    assert "'hf_token': 'hf_***'" in mask(line)


def test_only_secrets_are_masked() -> None:
    """Names that only look a little like a token stay readable."""
    assert "hf_transfer of hf_home" == mask("hf_transfer of hf_home")
    assert "Authorization: Bearer abc***" == mask("Authorization: Bearer abcdefghijkl")
    assert "http://***@proxy:3128" == mask("http://user:pw@proxy:3128")
    assert "404 for url (https://cdn/a?***)" == mask("404 for url (https://cdn/a?Signature=x&Policy=y)")
    assert "is it there? yes" == mask("is it there? yes")


def test_what_a_terminal_would_obey_is_replaced() -> None:
    """A server's words neither clear the screen nor set a title, and hide no token behind such a character."""
    assert "\ufffd[2Jgone\ufffd]0;title\ufffd" == mask("\x1b[2Jgone\x1b]0;title\x07")
    assert "\ufffd31m" == mask("\x9b31m")
    assert "hf_***\ufffdhf_***" == mask("hf_abcdefghij\x1bhf_abcdefghij")
    assert "two\tlines\n" == mask("two\tlines\n")


def test_signed_links_are_shown_without_their_signature() -> None:
    """Query and user info go, the rest stays."""
    assert "https://cdn:8443/x/y" == without_query("https://u:p@cdn:8443/x/y?X-Amz-Signature=1&Policy=2#f")


def test_what_is_no_url_is_shown_without_secrets_too() -> None:
    """Whoever has to say that it is none shows it."""
    assert "http://***@[x/y" == without_query("http://user:pw@[x/y?Signature=1")


@pytest.mark.timeout(20)
def test_a_text_full_of_beginnings_of_links_is_read_in_one_pass() -> None:
    """A server says what it likes: looking from each to the end of the text took minutes."""
    text = "://" * 500_000

    assert text == mask(text)
    assert f"{text}a?***" == mask(f"{text}a?Signature=x")
