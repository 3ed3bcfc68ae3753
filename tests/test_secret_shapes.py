"""A secret is known by its shape, and an example of one is not taken for it."""

from __future__ import annotations

import pytest

from kboot.facts.secret_text import what_in, without_secrets
from kboot.secret_shapes import SHAPES

KEY = (
    b"-----BEGIN OPENSSH PRIVATE"
    + b" KEY-----\n"
    + b"QUFB" * 16
    + b"\n"
    + b"QUFB" * 8
    + b"\n-----END OPENSSH PRIVATE"
    + b" KEY-----"
)
SECRETS = (
    ("a Hub token", b"hf_" + b"Ab1" * 11),
    ("a GitHub token", b"ghp_" + b"Ab1" * 12),
    ("a GitHub token", b"ghs_" + b"Ab1" * 12),
    ("a GitHub token", b"github_pat_" + b"Ab1_" * 10),
    ("a GitLab token", b"glpat-" + b"Ab1-" * 5),
    ("an AWS access key", b"AKIA" + b"Q2W3" * 4),
    ("a Slack token", b"xoxb-" + b"123456-" * 4 + b"Ab1"),
    ("an NGC key", b"nvapi-" + b"Ab1-x" * 10),
    ("an npm token", b"npm_" + b"Ab1" * 12),
    ("a PyPI token", b"pypi-AgE" + b"Ab1_x" * 12),
    ("a Docker Hub token", b"dckr_pat_" + b"Ab1-x" * 6),
    ("a key of a model's API", b"sk-proj-" + b"Ab1" * 12),
    ("a JSON web token", b"eyJhbGciOiJI.eyJzdWIiOiIx." + b"Ab1_-" * 6),
    ("a private key", KEY),
    ("a private key", KEY.replace(b"\n", b"\\n")),
    ("a private key", KEY.replace(b"\n", b"\\\\n")),
    (
        "a private key",
        KEY.replace(b"KEY-----\n", b"KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,0A1B\n\n", 1),
    ),
)


@pytest.mark.parametrize(("name", "secret"), SECRETS)
def test_each_shape_is_found_and_taken_out(name: str, secret: bytes) -> None:
    """In the middle of a text, in quotes, at its end; what stands around it stays."""
    for before, after in ((b"", b""), (b"x = '", b"'\n"), (b"https://u:", b"@host/")):
        assert name == what_in(before + secret + after, ())
        assert before + after == without_secrets(before + secret + after, ())


def test_every_shape_has_an_example() -> None:
    """One that none of them matches would be found nowhere."""
    assert {shape.name for shape in SHAPES} == {name for name, _ in SECRETS}


@pytest.mark.parametrize(
    "text",
    [
        b"hf_xxx, $HF_TOKEN, hf_hub_download, shf_0123456789abcdefgh",
        b"AKIAIOSFODNN7EXAMPLE",
        b"if line == '-----BEGIN PRIVATE"
        + b" KEY-----': raise ValueError('that is a private key, and not a certificate')",
        b"-----BEGIN PUBLIC KEY-----\n" + b"QUFB" * 16,
        b"-----BEGIN PRIVATE" + b" KEY-----" + b" " * 60,
        b"-----BEGIN PRIVATE" + b" KEY-----\n\nand then the lines of the key itself until the line with which it ends",
        b"ask-me-anything-about-everything-in-the-whole-wide-world",
        b"sha256:" + b"0123456789abcdef" * 4,
        b"xoxo, eyJ, npm_config_cache, glpat-short",
    ],
)
def test_words_that_only_begin_so_are_none(text: bytes) -> None:
    """Names, examples of documents and hashes."""
    assert "" == what_in(text, ())


def test_values_that_are_known_need_no_shape() -> None:
    """They are found where shapes are not looked for."""
    assert "a secret of this builder" == what_in(b"a company-secret b", (b"company-secret",), shapes=False)
    assert "" == what_in(b"hf_" + b"Ab1" * 11, (), shapes=False)


SIZE = 2 << 20
MADE = (
    b"github_pat_" * (SIZE // 11) + b"-",
    b"xoxb-" * (SIZE // 5) + b"_",
    b"_AKIA" * (SIZE // 5),
    b"-----BEGIN PRIVATE" + b" KEY-----" + b" " * SIZE,
)


@pytest.mark.parametrize("text", MADE, ids=["GitHub", "Slack", "AWS", "blanks"])
def test_no_text_is_slow_to_search(text: bytes) -> None:
    """One that is made for it takes one pass; a pattern that tries each beginning to the end would not end in time."""
    assert what_in(text, ()) in ("", "a GitHub token", "a Slack token")
