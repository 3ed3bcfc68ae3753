"""What does a secret look like, wherever it stands? Shapes of tokens that services give out, and of private keys."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

# Each pattern ends where its repeated characters do, so that none is given back: in a text of many beginnings, the time
# of one that gives back grows with the square of the text.
_END = r"(?![A-Za-z0-9_-])"


class Shape(NamedTuple):
    """One kind of secret. needle: what each has, by which a text without any is passed in one look.

    pattern: with FLAGS, for text; for bytes as well.
    """

    name: str
    needle: str
    pattern: str


SHAPES = (
    Shape("a Hub token", "hf_", r"(?<![A-Za-z0-9])hf_[A-Za-z0-9]{16,}(?![A-Za-z0-9])"),
    *(
        Shape("a GitHub token", needle, r"(?<![A-Za-z0-9])" + needle + r"[A-Za-z0-9]{36,}(?![A-Za-z0-9])")
        for needle in ("ghp_", "gho_", "ghu_", "ghs_", "ghr_")
    ),
    Shape("a GitHub token", "github_pat_", r"(?<![A-Za-z0-9])github_pat_[A-Za-z0-9_]{36,}"),
    Shape("a GitLab token", "glpat-", r"(?<![A-Za-z0-9])glpat-[A-Za-z0-9_-]{20,}(?![A-Za-z0-9_-])"),
    # The ids of examples in documents end so.
    *(
        Shape(
            "an AWS access key",
            needle,
            r"(?<![A-Za-z0-9])" + needle + r"(?!\w{0,16}EXAMPLE)[A-Z0-9]{16}(?![A-Za-z0-9])",
        )
        for needle in ("AKIA", "ASIA")
    ),
    Shape("a Slack token", "xox", r"(?<![A-Za-z0-9])xox[abeoprs]-[A-Za-z0-9-]{20,}"),
    Shape("an NGC key", "nvapi-", r"(?<![A-Za-z0-9])nvapi-[A-Za-z0-9_-]{40,}" + _END),
    Shape("an npm token", "npm_", r"(?<![A-Za-z0-9_])npm_[A-Za-z0-9]{36}(?![A-Za-z0-9])"),
    Shape("a PyPI token", "pypi-AgE", r"(?<![A-Za-z0-9])pypi-AgE[A-Za-z0-9_-]{50,}" + _END),
    Shape("a Docker Hub token", "dckr_pat_", r"(?<![A-Za-z0-9])dckr_pat_[A-Za-z0-9_-]{20,}" + _END),
    Shape("a key of a model's API", "sk-", r"(?<![A-Za-z0-9_-])sk-(?:ant-|proj-|or-)?[A-Za-z0-9_]{32,}[A-Za-z0-9_-]*"),
    Shape(
        "a JSON web token",
        "eyJ",
        r"(?<![A-Za-z0-9_-])eyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{20,}" + _END,
    ),
    # Code that only names the first line is no key: a line of one must follow, also where \n stands for a line's end.
    # Blanks are not given back (`++`): so many of them would take a look at the rest from each.
    Shape(
        "a private key",
        "PRIVATE KEY-----",
        r"-----BEGIN [A-Z0-9 ]{0,30}PRIVATE KEY-----(?:\s|\\+[nr])++(?:[A-Za-z-]+: [^\n]{0,200}\n){0,5}\s*+"
        r"[A-Za-z0-9+/=]{32}[A-Za-z0-9+/=\s\\]{8,65536}(?:-----END [A-Z0-9 ]{0,30}PRIVATE KEY-----)?",
    ),
)

FLAGS = re.ASCII | re.DOTALL


def hide(text: str, instead: str, shapes: Iterable[Shape] = SHAPES) -> str:
    """Return a text with something else in place of each secret."""
    for shape in shapes:
        if shape.needle in text:  # a pattern is compiled for the first text that may have one
            text = re.sub(shape.pattern, instead, text, flags=FLAGS)
    return text
