"""How are the types of what is asked described for the validator?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Literal

import pytest
from pydantic_core import ValidationError

from kboot.profile.schema import validator


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A table in a list of tables."""

    share: Annotated[float, ("ge", 0.0), ("le", 1.0)] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Whole:
    """Every kind of type that profiles have."""

    name: Annotated[str, ("min_length", 2)]
    pair: tuple[int, int]
    parts: Annotated[tuple[Part, ...], ("min_length", 1)]
    word: Literal["a", "b"] = "b"
    env: Mapping[str, str] = field(default_factory=dict)
    on: bool = True


@dataclass(frozen=True, slots=True)
class Strange:
    """A bound that no profile has."""

    even: Annotated[int, ("multiple_of", 2)]


@dataclass(frozen=True, slots=True)
class Either:
    """A type that no profile has."""

    value: int | str


def errors(text: str) -> list[tuple[tuple[int | str, ...], str]]:
    """Return where the validator finds what kind of error."""
    with pytest.raises(ValidationError) as caught:
        validator(Whole).validate_json(text, strict=True)
    return [(error["loc"], error["type"]) for error in caught.value.errors()]


def test_a_document_becomes_the_frozen_value_with_its_defaults() -> None:
    """Tables become dataclasses, lists tuples, whole numbers floats where floats are wanted."""
    text = '{"name": "ab", "pair": [1, 2], "parts": [{"share": 1}, {}], "env": {"A": "1"}}'

    assert Whole(
        name="ab", pair=(1, 2), parts=(Part(share=1.0), Part()), word="b", env={"A": "1"}, on=True
    ) == validator(Whole).validate_json(text, strict=True)


def test_every_problem_is_told_at_its_place() -> None:
    """Bounds, words, lengths, unknown keys and missing ones, all at once and inside lists too."""
    text = '{"name": "a", "parts": [{"share": 1.5}, {"shape": 1}], "word": "c", "env": {"A": 1}, "on": 1}'

    assert [
        (("name",), "string_too_short"),
        (("pair",), "missing"),
        (("parts", 0, "share"), "less_than_equal"),
        (("parts", 1, "shape"), "unexpected_keyword_argument"),
        (("parts",), "too_short"),  # of those that are right
        (("word",), "literal_error"),
        (("env", "A"), "string_type"),
        (("on",), "bool_type"),
    ] == errors(text)


def test_a_list_may_be_too_short_and_a_number_not_finite() -> None:
    """A list of one or more is not empty; NaN is no share."""
    text = '{"name": "ab", "pair": [1], "parts": []}'

    assert [(("pair", 1), "missing"), (("parts",), "too_short")] == errors(text)
    assert (("parts", 0, "share"), "finite_number") == errors(
        '{"name": "ab", "pair": [1, 2], "parts": [{"share": NaN}]}'
    )[0]


@pytest.mark.parametrize("wanted", [Strange, Either])
def test_a_type_that_nobody_described_is_refused(wanted: type) -> None:
    """A new kind of type in a profile is noticed by whoever adds it: never checked by half."""
    with pytest.raises(TypeError, match="no description for the"):
        validator(wanted)


@pytest.mark.parametrize("number", [10**18 + 1, 10**400])
def test_a_whole_number_has_an_end(number: int) -> None:
    """What no float holds cannot be added to a time or shown in GB, and would end a command as a fault of kboot."""
    with pytest.raises(ValidationError) as caught:
        validator(Whole).validate_json(f'{{"name": "ab", "pair": [1, {number}], "parts": [{{}}]}}')

    assert ["less_than_equal"] == [error["type"] for error in caught.value.errors()]
