"""Does a text hold a credential? Profiles are copied, committed and printed; tokens must never be in them."""

from __future__ import annotations

import re

from kboot.secret_shapes import FLAGS, SHAPES, Shape, hide

_CREDENTIALS = (
    *SHAPES,
    Shape("a Hugging Face token", "api_org_", r"\bapi_org_[A-Za-z0-9]{16,}"),
    Shape("a user and password in a URL", "://", r"(?<=://)[^\s/@\"']+@"),
    Shape("a signed URL", "=", r"(?i:X-Amz-Signature)=[^\s&\"']+"),
)
HIDDEN = "(hidden)"


def secrets_in(text: str) -> tuple[str, ...]:
    """Return what kinds of credential the text holds, never the credential."""
    return tuple(dict.fromkeys(s.name for s in _CREDENTIALS if s.needle in text and re.search(s.pattern, text, FLAGS)))


def without_secrets(text: str) -> str:
    """Return the text with every credential replaced."""
    return hide(text, HIDDEN, _CREDENTIALS)
