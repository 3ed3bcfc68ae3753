"""What may leave a node keeps its evidence and loses what names or opens something."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kboot.report.redact import redact, redact_document

PEM = "OPENSSH PRIVATE " + "KEY"


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("token hf_AbCdEfGhIjKl in use", "token <secret> in use"),
        ("npm_" + "Ab1" * 12 + " but npm_config_cache", "<secret> but npm_config_cache"),
        ("Authorization: Bearer abc.def", "Authorization: Bearer <secret>"),
        ("HF_TOKEN=abc next", "HF_TOKEN=<secret> next"),
        ("https://me:pw@mirror/x", "https://<secret>@mirror/x"),
        ("basic auth: Authorization: Basic dXNlcjpwYXNz", "basic auth: Authorization: <secret>"),
        ('{"hf_token": "two words", "a": 1}', '{"hf_token": <secret>, "a": 1}'),
        ("password='two words' next", "password=<secret> next"),
        ("vllm serve --api-key abcdef --port 1", "vllm serve --api-key <secret> --port 1"),
        ("AWS_ACCESS_KEY_ID=x and ASIAABCDEFGHIJKLMNOP", "AWS_ACCESS_KEY_ID=<secret> and <secret>"),
        ("at https://s3.example/b?X-Amz-Signature=0a1b now", "at https://s3.example/b?<secret> now"),
        ("jwt eyJhbGciOiJI.eyJzdWIiOiIx.c2ln", "jwt <secret>"),
        (f"-----BEGIN {PEM}-----\nb3Bl\n-----END {PEM}-----\nx", "<secret>\nx"),
        ("peer 10.0.3.17:8000 and fe80::1ff:fe23:4567:890a.", "peer <address>:8000 and <address>."),
        ("link 52:54:00:12:34:56 down", "link <mac> down"),
        ("node7.rack2.example: node7 said", "<host>: <host> said"),
    ],
)
def test_what_names_or_opens_is_replaced(text: str, wanted: str) -> None:
    """Tokens, passwords, network and hardware addresses, and the node's long and short name."""
    assert wanted == redact(text, ("node7.rack2.example",))


@pytest.mark.parametrize(
    "text",
    [
        "GPU 0000:3b:00.0 fell off the bus at 12:30:45",
        "driver 580.159.04, kernel 6.12.0-1-amd64",
        "listens on 127.0.0.1:8000 and ::1",
        "std::bad_alloc in module node70",
        "--max-num-batched-tokens 8192 --tokenizer-mode auto",
        "NVRM: Xid (PCI:0000:44:00): 79",
    ],
)
def test_evidence_stays(text: str) -> None:
    """PCI addresses, times, versions and loopback name nobody."""
    assert text == redact(text, ("node7",))


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("doctor quick on ai: 2 fail", "doctor quick on <host>: 2 fail"),
        ("pid 7 on ai since noon", "pid 7 on <host> since noon"),
        ("ai:/vol/models on /m", "<host>:/vol/models on /m"),
        ("http://ai:8080/hf and x@ai", "http://<host>:8080/hf and x@<host>"),
        ("ai.corp.example", "<host>.corp.example"),
        ("hostname: ai", "hostname: <host>"),
        ("an ai model, /opt/ai/bin, ai-tools", "an ai model, /opt/ai/bin, ai-tools"),
        ("said ai.", "said ai."),
    ],
)
def test_a_name_of_two_letters_goes_where_a_machine_is_meant(text: str, wanted: str) -> None:
    """Elsewhere it is an ordinary word; what was replaced is not found again."""
    assert wanted == redact(text, ("ai",))
    assert wanted == redact(wanted, ("ai",))


def test_short_names_with_a_digit_are_no_words() -> None:
    """They go wherever they stand alone."""
    assert "<host> answers, h10 and sh1 do not" == redact("h1 answers, h10 and sh1 do not", ("h1",))
    assert "100 files from <host>:/vol" == redact("100 files from 100:/vol", ("100.corp.example",))


def test_a_field_that_holds_a_name_holds_none_afterwards() -> None:
    """Of any length; a field of something else keeps the same letters."""
    assert {"hostname": "<host>", "user": "ai", "says": "ai"} == redact_document(
        {"hostname": "ai", "user": "ai", "says": "ai"}, ["ai"]
    )


def test_documents_are_redacted_in_depth() -> None:
    """Keys and values at any depth; numbers stay."""
    assert {"on <host>": [{"a": "<address>"}, 3, None]} == redact_document(
        {"on node7": ({"a": "10.1.2.3"}, 3, None)}, ["node7"]
    )


def test_a_value_is_secret_by_its_name() -> None:
    """In a table and on a command line name and value are two texts; where a token lies is no secret."""
    assert {"HF_TOKEN": "<secret>", "token_file": "/etc/t", "argv": ["--api-key", "<secret>", "--port", "1"]} == (
        redact_document({"HF_TOKEN": "abc", "token_file": "/etc/t", "argv": ["--api-key", "abc", "--port", "1"]})
    )


@given(st.text())
def test_nothing_is_redacted_twice(text: str) -> None:
    """What was redacted stays as it is."""
    once = redact(text, ("node7",))

    assert once == redact(once, ("node7",))
