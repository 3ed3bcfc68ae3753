"""How do facts look as JSON? The document that `kboot facts --json` prints; its keys are those of types.py."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kboot.facts.types import NodeFacts


def facts_to_json(facts: NodeFacts) -> dict[str, object]:
    """Return the facts as plain values: tuples as lists, sets sorted, numbers as keys written as text."""
    return {"schema": 1, "kind": "facts", **_object(facts)}


def _object(value: object) -> dict[str, object]:
    return {f.name: _plain(getattr(value, f.name)) for f in fields(value)}  # type: ignore[arg-type]


def _plain(value: object) -> object:
    if is_dataclass(value):
        return _object(value)
    if isinstance(value, Mapping):
        return {str(key): _plain(value[key]) for key in sorted(value)}
    if isinstance(value, frozenset):
        return sorted(value)
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return value
