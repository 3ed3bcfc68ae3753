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
