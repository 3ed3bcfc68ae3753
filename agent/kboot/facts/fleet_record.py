"""How do nodes write down what they state, and read what others wrote? Whatever is not of that form is refused."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from kboot.facts.fleet_types import FleetRecord, NodeStatement
from kboot.jsontext import parse_json

SCHEMA = 1
_KIND = "fleet-record"
_MOST_VALUES = 256
_LONGEST_TEXT = 1024
_MOST_STATEMENTS = 4096
_LATEST_UNIX_S = 1e12


def statement_to_json(statement: NodeStatement) -> dict[str, Any]:
    """Return a statement as plain values."""
    values = {key: statement.values[key][:_LONGEST_TEXT] for key in sorted(statement.values)[:_MOST_VALUES]}
    return {"name": statement.name, "values": values, "gpu_free_bytes": statement.gpu_free_bytes}


def statement_from_json(value: object) -> NodeStatement:
    """Return a statement.

    Raises:
        ValueError: it is not of that form.
    """
    document = _table(value)
    values = _table(document.get("values"))
    free = document.get("gpu_free_bytes")
    if len(values) > _MOST_VALUES or not all(isinstance(text, str) for text in values.values()):
        raise ValueError("its values are no texts, or too many")
    if free is not None and (type(free) is not int or free < 0):
        raise ValueError("gpu_free_bytes is no number of bytes")
    return NodeStatement(_text(document, "name"), {k: v[:_LONGEST_TEXT] for k, v in values.items()}, free)


def statements_from_json(value: object) -> tuple[NodeStatement, ...]:
    """Return a list of statements.

    Raises:
        ValueError: it is not of that form.
    """
    if not isinstance(value, Sequence) or isinstance(value, str) or len(value) > _MOST_STATEMENTS:
        raise ValueError("wants a list of statements")
    return tuple(statement_from_json(each) for each in value)


def record_to_bytes(record: FleetRecord) -> bytes:
    """Return the record as it is kept."""
    document = {
        "schema": SCHEMA,
        "kind": _KIND,
        "boot_id": record.boot_id,
        "unix_s": record.unix_s,
        "started": record.started,
        "commit": record.commit,
        "statements": [statement_to_json(each) for each in record.statements],
    }
    return json.dumps(document, indent=1).encode() + b"\n"


def record_from_text(text: str | bytes) -> FleetRecord:
    """Return a record.

    Raises:
        ValueError: it is none of this version's.
    """
    document = _table(parse_json(text))
    if (document.get("schema"), document.get("kind")) != (SCHEMA, _KIND):
        raise ValueError("another version of kboot wrote it")
    unix_s = document.get("unix_s")
    if not isinstance(unix_s, int | float) or isinstance(unix_s, bool) or not 0 <= unix_s < _LATEST_UNIX_S:
        raise ValueError("unix_s is no time")
    return FleetRecord(
        boot_id=_text(document, "boot_id"),
        unix_s=float(unix_s),
        started=document.get("started") is True,
        commit=_text(document, "commit"),
        statements=statements_from_json(document.get("statements")),
    )


def _table(value: object) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise ValueError("wants a table")
    return value


def _text(document: Mapping[str, Any], key: str) -> str:
    value = document.get(key)
    if not isinstance(value, str) or len(value) > _LONGEST_TEXT:
        raise ValueError(f"{key} is no short text")
    return value
