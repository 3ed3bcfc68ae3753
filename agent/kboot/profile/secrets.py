"""Does a text hold a credential? Profiles are copied, committed and printed; tokens must never be in them."""

from __future__ import annotations

import re

_SHAPES: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("a Hugging Face token", re.compile(r"\b(?:hf|api_org)_[A-Za-z0-9]{16,}")),
    ("an AWS access key id", re.compile(r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b")),
    ("a user and password in a URL", re.compile(r"(?<=://)[^\s/@\"']+@")),
    ("a signed URL", re.compile(r"X-Amz-Signature=[^\s&\"']+", re.IGNORECASE)),
)
HIDDEN = "(hidden)"


def secrets_in(text: str) -> tuple[str, ...]:
    """Return what kinds of credential the text holds, never the credential."""
    return tuple(kind for kind, shape in _SHAPES if shape.search(text))


def without_secrets(text: str) -> str:
    """Return the text with every credential replaced."""
    for _kind, shape in _SHAPES:
        text = shape.sub(HIDDEN, text)
    return text
