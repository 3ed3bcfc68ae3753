"""Do merged values make a valid profile (or configuration), and if not, what is wrong with each of them?"""

from __future__ import annotations

import datetime
import difflib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any, TypeVar, get_args, get_type_hints

from kboot.errors import ProfileError
from kboot.profile.document import Document
from kboot.profile.merge import Merged, dotted
from kboot.profile.rules import Path, Problem, impossible
from kboot.profile.secrets import without_secrets
from kboot.profile.toml import toml_value

T = TypeVar("T")
_SHOWN = 60
_NOT_KEYS = frozenset({"origin", "digest", "declared"})  # fields that loading fills in
_TYPES = {
    "bool_type": "true or false",
    "dataclass_type": "a table",
    "dict_type": "a table",
    "finite_number": "a finite number",
    "float_type": "a number",
    "int_from_float": "a whole number",
    "int_type": "a whole number",
    "mapping_type": "a table",
    "string_type": "text",
    "tuple_type": "a list",
}
_BOUNDS = {"greater_than": ("more than", "gt"), "greater_than_equal": ("at least", "ge")} | {
    "less_than": ("less than", "lt"),
    "less_than_equal": ("at most", "le"),
}


def validate(
    wanted: type[T], merged: Merged, documents: tuple[Document, ...], what: str, given: Mapping[str, Any], noun: str
) -> T:
    """Return the typed value.

    what: "profile demo", for the message. given: fields that the file may not set (a profile's name).
    noun: first word of the error code.

    Raises:
        ProfileError: `<noun>-not-valid` with every problem of every document, one a line.
    """
    value, typed = _typed(wanted, merged.values, given)
    problems = dict((*impossible(merged.values), *typed))
    lines = [f"{d.origin}: {text}" for d in documents for text in d.secrets]
    lines += [_line(merged, path, text) for path, text in sorted(problems.items(), key=lambda p: dotted(p[0]))]
    if value is None or lines:
        raise ProfileError(
            f"{noun}-not-valid",
            f"{what} has {len(lines)} {'problem' if len(lines) == 1 else 'problems'}",
            where=tuple(lines),
            hint=_hint(lines) if noun == "profile" else None,
        )
    return value


def _hint(lines: Sequence[str]) -> str:
    if all(line.startswith("--set:") for line in lines):
        return "`kboot profile show` shows every key and its value"
    return "`kboot profile check P`, with its name or file for P, reads the files again"


def _line(merged: Merged, path: Path, text: str) -> str:
    origin, key = merged.origin_of(path), dotted(path)
    said = f"{origin}: {key} {text}"
    if origin == "--set" and text.startswith("is ") and text.endswith("; wanted: text"):
        value = text.removeprefix("is ").removesuffix("; wanted: text")
        said += f"; in quotes that reach kboot it is text: --set '{key}=\"{value}\"'"
    return without_secrets(said)


def _typed(wanted: type[T], values: Mapping[str, Any], given: Mapping[str, Any]) -> tuple[T | None, list[Problem]]:
    """Let the validator build the value.

    Through JSON and strict: lists become tuples and whole numbers floats, and nothing else is converted.
    """
    from pydantic_core import ValidationError

    from kboot.profile.schema import validator

    own = [((key,), _unknown(wanted, (key,), given)) for key in sorted(values) if key in _NOT_KEYS | given.keys()]
    dates = [(path, f"is the date {value}; wanted: text, in quotes") for path, value in _dates(values, ())]
    document = {key: value for key, value in values.items() if key not in _NOT_KEYS} | dict(given)
    checker = validator(wanted)  # type: ignore[arg-type] # mypy takes no class for hashable
    try:
        value: T = checker.validate_json(json.dumps(document, default=str), strict=True)
    except ValidationError as exc:
        found = [p for error in exc.errors(include_url=False) for p in _problem(wanted, error, given)]
        return None, [*found, *dates, *own]
    return value, [*dates, *own]


def _dates(node: object, path: Path) -> Iterator[tuple[Path, object]]:
    """TOML has dates and times; no key of kboot takes one, and JSON would turn them into text."""
    if isinstance(node, datetime.date | datetime.time):
        yield path, node
    elif isinstance(node, dict):
        for key, child in node.items():
            yield from _dates(child, (*path, key))
    elif isinstance(node, list):
        for number, child in enumerate(node):
            yield from _dates(child, (*path, number))


def _problem(wanted: type, error: Mapping[str, Any], given: Mapping[str, Any]) -> Iterator[Problem]:
    path: Path = tuple(error["loc"])
    kind, value = error["type"], error["input"]
    if kind == "unexpected_keyword_argument":
        yield path, _unknown(wanted, path, given)
    elif kind == "missing":
        yield path, "is missing and has no default"
    elif kind == "too_short" and value:
        return  # a list whose elements are all wrong; each of them is told
    else:
        yield path, f"is {_shown(value)}; wanted: {_allowed(kind, error)}"


def _allowed(kind: str, error: Mapping[str, Any]) -> str:
    context = error.get("ctx", {})
    if kind in _TYPES:
        return _TYPES[kind]
    if kind in _BOUNDS:
        words, name = _BOUNDS[kind]
        return f"{words} {context[name]:g}"
    match kind:
        case "literal_error":
            return str(context["expected"])
        case "string_too_short":
            return f"at least {context['min_length']} characters"
        case "too_short":
            return f"at least {context['min_length']} of them"
        case _:
            return str(error["msg"])


def _shown(value: object) -> str:
    text = toml_value(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def _unknown(wanted: type, path: Path, given: Mapping[str, Any]) -> str:
    """Name the nearest key of the same table, else the same key elsewhere, else all keys of the table."""
    table = _dataclass_at(wanted, path[:-1])
    known = [f.name for f in fields(table) if f.name not in _NOT_KEYS | given.keys()] if table else []
    key = str(path[-1])
    elsewhere = [dotted(p) for p in _all_keys(wanted, ()) if p[-1] == key and p[0] not in _NOT_KEYS | given.keys()]
    near = difflib.get_close_matches(key, known, n=1, cutoff=0.6 if elsewhere else 0.5)
    if near:
        return f"is unknown; the nearest known key is {dotted((*path[:-1], near[0]))}"
    if elsewhere:
        return f"is unknown here; did you mean {elsewhere[0]}?"
    return f"is unknown; known here: {', '.join(sorted(known))}"


def _dataclass_at(wanted: type, path: Path) -> type | None:
    found: type | None = wanted
    for part in path:
        if found is None:
            return None
        found = found if isinstance(part, int) else _dataclass_in(get_type_hints(found).get(part))
    return found


def _all_keys(wanted: type, path: Path) -> Iterator[Path]:
    for name, hint in get_type_hints(wanted).items():
        yield (*path, name)
        inside = _dataclass_in(hint)
        if inside is not None:
            yield from _all_keys(inside, (*path, name))


def _dataclass_in(hint: object) -> type | None:
    """Return the dataclass that a field holds: itself, in a tuple, or beside None."""
    if isinstance(hint, type) and is_dataclass(hint):
        return hint
    return next((found for arg in get_args(hint) if (found := _dataclass_in(arg)) is not None), None)
