"""What does every `--json` document have in common? One object: `schema`, `kind`, then keys that stay. Pure.

Imports little: the edge of every command prints errors with it.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import Any

from kboot.errors import KbootError

SCHEMA = 1
Document = dict[str, Any]


def document(kind: str, body: Mapping[str, Any]) -> Document:
    """Return the document of a kind; `body`'s keys follow `schema` and `kind`."""
    return {"schema": SCHEMA, "kind": kind, **body}


def dumps(doc: Mapping[str, Any]) -> str:
    """Return the document as text, one trailing newline not included."""
    return json.dumps(doc, indent=2, ensure_ascii=False)


def plain(value: Any) -> Any:
    """Return a value made of dataclasses, tuples, sets, mappings and errors as JSON has it.

    Mapping keys become strings; sets become sorted lists.
    """
    if isinstance(value, KbootError):
        return value.to_json()
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, (set, frozenset)):
        return sorted((plain(v) for v in value), key=str)
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    return value


def error_document(error: KbootError) -> Document:
    """Return the document that stands in place of a result."""
    return document("error", error.to_json())
