"""What does a text say as JSON, whoever wrote it?"""

from __future__ import annotations

import json
from typing import Any

MOST_VALUES = 1 << 20
"""Of a text that anybody may have written: about 110 MB of memory. 100,000 files with their hashes are a million."""

_MOST_DIGITS = 300  # any such number is a float as well


def count_values(data: bytes) -> int:
    """Return how many values a text has at most, without parsing it: "{},{},{}" takes 25 times its length of memory."""
    return data.count(b",") + data.count(b"[") + data.count(b"{")


def parse_json(data: str | bytes) -> Any:
    """Return the value; every text in it can be written as UTF-8.

    The json module takes half of a surrogate pair ("\\ud800") for a text, which nothing could print, and answers what
    is nested thousands deep with a RecursionError, which is no ValueError. It takes integers that no float holds, an
    OverflowError where one is wanted. NaN and Infinity pass: models' configurations have them.

    Raises:
        ValueError: not JSON, nested too deep, or an integer that no float holds.
    """
    try:
        value = json.loads(data, parse_int=_int)
        if ("\\u" if isinstance(data, str) else b"\\u") in data:  # type: ignore[operator]
            value = json.loads(json.dumps(value, ensure_ascii=False).encode(errors="replace"))
    except RecursionError as exc:
        raise ValueError("nested too deep") from exc
    return value


def _int(text: str) -> int:
    if len(text) > _MOST_DIGITS:
        raise ValueError(f"a number of {len(text)} digits")
    return int(text)
