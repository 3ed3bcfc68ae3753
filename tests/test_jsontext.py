"""JSON that nobody vouches for."""

from __future__ import annotations

import json
import math

import pytest

from kboot.jsontext import parse_json


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a":' * 100_000, b"[" * 100_000])
def test_what_is_nested_too_deep_is_a_value_error(text: str | bytes) -> None:
    """Callers handle one exception, whatever is wrong."""
    with pytest.raises(ValueError, match="nested too deep"):
        parse_json(text)


@pytest.mark.parametrize("text", [r'{"name": "a\ud800b"}', rb'{"name": "a\udfffb"}'])
def test_half_a_character_can_be_printed(text: str | bytes) -> None:
    """A lone surrogate becomes a question mark; anything else would end in a UnicodeEncodeError where it is shown."""
    assert {"name": "a?b"} == parse_json(text)


def test_whole_characters_stay() -> None:
    """A surrogate pair is a character, and a backslash before a u may be just that."""
    assert {"a": "\U0001f600 é", "b": "\\ud800", "c": [1, 2.5, None, True]} == parse_json(
        r'{"a": "\ud83d\ude00 \u00e9", "b": "\\ud800", "c": [1, 2.5, null, true]}'
    )


def test_what_is_no_json_is_a_value_error() -> None:
    """As the json module has it."""
    with pytest.raises(json.JSONDecodeError):
        parse_json("{")


@pytest.mark.parametrize("number", ["9" * 400, "-" + "9" * 5000])
def test_an_integer_that_no_float_holds_is_a_value_error(number: str) -> None:
    """Whoever wants a float would get an OverflowError; what configurations of models have is none."""
    with pytest.raises(ValueError, match="digits"):
        parse_json(f'{{"unix_s": {number}}}')
    assert {"time_step_limit": [0.0, math.inf]} == parse_json('{"time_step_limit": [0.0, Infinity]}')
