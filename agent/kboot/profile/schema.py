"""How are the types of what is asked written down for pydantic's validator?

Of pydantic only its core, `pydantic_core`: the same validator and the same errors. What pydantic adds makes this
description from any type there is, at twenty times the cost; these types are few, and every command waits for it.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, fields
from functools import cache
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from pydantic_core import CoreConfig, CoreSchema, SchemaValidator, core_schema

T = TypeVar("T")
_CONFIG = CoreConfig(extra_fields_behavior="forbid", allow_inf_nan=False)
_BOUNDS = frozenset({"ge", "gt", "le", "min_length"})
_MOST = 10**18  # of seconds, bytes or anything; a larger number may be one that no float holds
_PLAIN: dict[object, Callable[..., CoreSchema]] = {
    bool: core_schema.bool_schema,
    float: core_schema.float_schema,
    int: lambda **bounds: core_schema.int_schema(**{"le": _MOST, **bounds}),
    str: core_schema.str_schema,
}


@cache
def validator(wanted: type[Any]) -> SchemaValidator:
    """Return what makes a value of a frozen dataclass from JSON, or says everything that is wrong with it.

    Raises:
        TypeError: a field has a type that is not one of those in use here.
    """
    return SchemaValidator(_dataclass(wanted), _CONFIG)


def _dataclass(wanted: type) -> CoreSchema:
    hints = get_type_hints(wanted, include_extras=True)
    args = [core_schema.dataclass_field(f.name, _field(f, hints[f.name])) for f in fields(wanted)]
    return core_schema.dataclass_schema(
        wanted,
        core_schema.dataclass_args_schema(wanted.__name__, args),
        [f.name for f in fields(wanted)],
        slots=True,
        config=_CONFIG,
    )


def _field(field: Field[Any], hint: object) -> CoreSchema:
    schema = _schema(hint, {})
    if field.default is not MISSING:
        return core_schema.with_default_schema(schema, default=field.default)
    if field.default_factory is not MISSING:
        return core_schema.with_default_schema(schema, default_factory=field.default_factory)
    return schema


def _schema(hint: object, bounds: Mapping[str, Any]) -> CoreSchema:
    """Return the description of one type; bounds: what `Annotated` says of it, as the validator's arguments."""
    if hint in _PLAIN:
        return _PLAIN[hint](**bounds)
    args = get_args(hint)
    match get_origin(hint):
        case _ if hint is Annotated or hasattr(hint, "__metadata__"):
            return _schema(args[0], _bounds(args[1:]))
        case origin if origin is Literal:
            return core_schema.literal_schema(list(args))
        case origin if origin in (Union, types.UnionType) and len(args) == 2 and args[1] is types.NoneType:
            return core_schema.nullable_schema(_schema(args[0], {}))
        case origin if origin is tuple and args[-1] is Ellipsis:
            return core_schema.tuple_schema([_schema(args[0], {})], variadic_item_index=0, **bounds)
        case origin if origin is tuple:
            return core_schema.tuple_schema([_schema(arg, {}) for arg in args])
        case origin if origin is Mapping:
            return core_schema.dict_schema(_schema(args[0], {}), _schema(args[1], {}))
        case None if isinstance(hint, type):
            return _dataclass(hint)
        case _:
            raise TypeError(f"no description for the type {hint}")


def _bounds(pairs: tuple[tuple[str, Any], ...]) -> Mapping[str, Any]:
    bounds = dict(pairs)
    if unknown := sorted(bounds.keys() - _BOUNDS):
        raise TypeError(f"no description for the bound {', '.join(unknown)}")
    return bounds
