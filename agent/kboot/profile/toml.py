"""How is a value written as TOML, so that what kboot shows can be read back?"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass

from kboot.profile.merge import dotted


def toml_value(value: object) -> str:
    """Return one value; tables become inline tables, values that are not set are left out of them."""
    if isinstance(value, str):
        # JSON leaves DEL as it is, TOML does not allow it; every other escape of JSON is one of TOML's
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Mapping):
        return _inline_table(value)
    if is_dataclass(value):
        return _inline_table({f.name: getattr(value, f.name) for f in fields(value)})
    if isinstance(value, Sequence):
        return f"[{', '.join(toml_value(v) for v in value)}]"
    return str(value)


def _inline_table(values: Mapping[str, object]) -> str:
    pairs = [f"{dotted((key,))} = {toml_value(value)}" for key, value in values.items() if value is not None]
    return "{" + ", ".join(pairs) + "}"
