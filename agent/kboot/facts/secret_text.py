"""What does a secret look like, wherever it stands? Shapes of tokens that services give out, and of private keys."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass

# Each pattern ends where its repeated characters do, so that none is given back: in a text of many beginnings, the time
# of one that gives back grows with the square of the text.
_END = rb"(?![A-Za-z0-9_-])"


@dataclass(frozen=True, slots=True)
class Shape:
    """One kind of secret. needle: bytes that each has, by which a text without any is passed in one look."""

    name: str
    needle: bytes
    pattern: re.Pattern[bytes]


def _shape(name: str, needle: bytes, pattern: bytes) -> Shape:
    return Shape(name, needle, re.compile(pattern, re.DOTALL))


SHAPES = (
    _shape("a Hub token", b"hf_", rb"(?<![A-Za-z0-9])hf_[A-Za-z0-9]{16,}(?![A-Za-z0-9])"),
    *(
        _shape("a GitHub token", needle, rb"(?<![A-Za-z0-9])" + needle + rb"[A-Za-z0-9]{36,}(?![A-Za-z0-9])")
        for needle in (b"ghp_", b"gho_", b"ghu_", b"ghs_", b"ghr_")
    ),
    _shape("a GitHub token", b"github_pat_", rb"(?<![A-Za-z0-9])github_pat_[A-Za-z0-9_]{36,}"),
    _shape("a GitLab token", b"glpat-", rb"(?<![A-Za-z0-9])glpat-[A-Za-z0-9_-]{20,}(?![A-Za-z0-9_-])"),
    # The ids of examples in documents end so.
    *(
        _shape(
            "an AWS access key",
            needle,
            rb"(?<![A-Za-z0-9])" + needle + rb"(?!\w{0,16}EXAMPLE)[A-Z0-9]{16}(?![A-Za-z0-9])",
        )
        for needle in (b"AKIA", b"ASIA")
    ),
    _shape("a Slack token", b"xox", rb"(?<![A-Za-z0-9])xox[abeoprs]-[A-Za-z0-9-]{20,}"),
    _shape("an NGC key", b"nvapi-", rb"(?<![A-Za-z0-9])nvapi-[A-Za-z0-9_-]{40,}" + _END),
    _shape("an npm token", b"npm_", rb"(?<![A-Za-z0-9_])npm_[A-Za-z0-9]{36}(?![A-Za-z0-9])"),
    _shape("a PyPI token", b"pypi-AgE", rb"(?<![A-Za-z0-9])pypi-AgE[A-Za-z0-9_-]{50,}" + _END),
    _shape("a Docker Hub token", b"dckr_pat_", rb"(?<![A-Za-z0-9])dckr_pat_[A-Za-z0-9_-]{20,}" + _END),
    _shape(
        "a key of a model's API", b"sk-", rb"(?<![A-Za-z0-9_-])sk-(?:ant-|proj-|or-)?[A-Za-z0-9_]{32,}[A-Za-z0-9_-]*"
    ),
    _shape(
        "a JSON web token",
        b"eyJ",
        rb"(?<![A-Za-z0-9_-])eyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{20,}" + _END,
    ),
    # Code that only names the first line is no key: what follows must be one, also where \n stands for a line's end.
    _shape(
        "a private key",
        b"PRIVATE KEY-----",
        rb"-----BEGIN [A-Z0-9 ]{0,30}PRIVATE KEY-----(?:\s|\\[nr])+(?:[A-Za-z-]+: [^\n]{0,200}\n){0,5}"
        rb"[A-Za-z0-9+/=\s\\]{40,65536}(?:-----END [A-Z0-9 ]{0,30}PRIVATE KEY-----)?",
    ),
)

_BY_VALUE = "a secret of this builder"


def what_in(data: bytes, values: Collection[bytes], *, shapes: bool = True) -> str:
    """Return the name of a secret in a text; empty for none. values: secrets that are known. shapes: look for those."""
    if any(value in data for value in values):
        return _BY_VALUE
    if shapes:
        for shape in SHAPES:
            if shape.needle in data and shape.pattern.search(data):
                return shape.name
    return ""


def without_secrets(data: bytes, values: Collection[bytes]) -> bytes:
    """Return a text without them; what stands around them stays, so that it still reads as it did."""
    for value in sorted(values, key=len, reverse=True):
        data = data.replace(value, b"")
    for shape in SHAPES:
        if shape.needle in data:
            data = shape.pattern.sub(b"", data)
    return data
