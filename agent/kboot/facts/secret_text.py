"""Does a text hold a secret, by its shape or by its value? For bytes of any file."""

from __future__ import annotations

import re
from collections.abc import Collection

from kboot.secret_shapes import SHAPES

_SHAPES = tuple((shape.name, shape.needle.encode(), re.compile(shape.pattern.encode(), re.DOTALL)) for shape in SHAPES)
_BY_VALUE = "a secret of this builder"


def what_in(data: bytes, values: Collection[bytes], *, shapes: bool = True) -> str:
    """Return the name of a secret in a text; empty for none. values: secrets that are known. shapes: look for those."""
    if any(value in data for value in values):
        return _BY_VALUE
    if shapes:
        for name, needle, pattern in _SHAPES:
            if needle in data and pattern.search(data):
                return name
    return ""


def without_secrets(data: bytes, values: Collection[bytes]) -> bytes:
    """Return a text without them; what stands around them stays, so that it still reads as it did."""
    for value in sorted(values, key=len, reverse=True):
        data = data.replace(value, b"")
    for _, needle, pattern in _SHAPES:
        if needle in data:
            data = pattern.sub(b"", data)
    return data
