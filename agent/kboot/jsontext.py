"""What does a text say as JSON, whoever wrote it?"""

from __future__ import annotations

import json
from typing import Any


def parse_json(data: str | bytes) -> Any:
    """Return the value; every text in it can be written as UTF-8.

    The json module takes half of a surrogate pair ("\\ud800") for a text, which nothing could print, and answers what
    is nested thousands deep with a RecursionError, which is no ValueError.

    Raises:
        ValueError: not JSON, or nested too deep.
    """
    try:
        value = json.loads(data)
        if ("\\u" if isinstance(data, str) else b"\\u") in data:  # type: ignore[operator]
            value = json.loads(json.dumps(value, ensure_ascii=False).encode(errors="replace"))
    except RecursionError as exc:
        raise ValueError("nested too deep") from exc
    return value
