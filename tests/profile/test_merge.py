"""Merging documents: whose value counts, and whose it is."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from kboot.profile.document import Document
from kboot.profile.merge import Merged, dotted, merge_documents

KEYS = st.sampled_from(["a", "b", "c", "/sys/x"])
LEAVES = st.one_of(st.integers(), st.booleans(), st.sampled_from(["", "x"]), st.lists(st.integers(), max_size=2))
TABLES = st.recursive(
    st.dictionaries(KEYS, LEAVES, max_size=3),
    lambda inner: st.dictionaries(KEYS, st.one_of(LEAVES, inner), max_size=3),
    max_leaves=8,
)


def merged(*tables: dict[str, Any]) -> Merged:
    """Merge tables that come from documents "0", "1"…"""
    return merge_documents([Document(str(n), table) for n, table in enumerate(tables)])


def leaves(table: dict[str, Any], path: tuple[str, ...] = ()) -> dict[tuple[str, ...], Any]:
    """Return every value that is not a table, by its path."""
    found: dict[tuple[str, ...], Any] = {}
    for key, value in table.items():
        found |= leaves(value, (*path, key)) if isinstance(value, dict) else {(*path, key): value}
    return found


def test_tables_merge_and_lists_replace() -> None:
    """Keys beside the overridden one stay; a list does not grow."""
    result = merged({"serve": {"port": 1, "host": "h"}, "l": [1, 2]}, {"serve": {"port": 2}, "l": [3]})

    assert {"serve": {"port": 2, "host": "h"}, "l": [3]} == result.values
    assert {"serve.port": "1", "serve.host": "0", "l": "1"} == result.origin


def test_a_value_in_place_of_a_table_takes_its_origins_away() -> None:
    """No origin is left of values that are gone."""
    result = merged({"a": {"b": 1, "c": 2}}, {"a": 5})

    assert ({"a": 5}, {"a": "1"}) == (result.values, result.origin)


@given(TABLES, TABLES)
def test_the_last_word_counts_and_nothing_else_is_lost(below: dict[str, Any], above: dict[str, Any]) -> None:
    """Every value of the upper document stands; a value of the lower one stands unless it is in the upper's way."""
    result = leaves(merged(below, above).values)
    upper = leaves(above)

    assert upper == {path: result[path] for path in upper}
    for path, value in leaves(below).items():
        in_the_way = any(path[: len(p)] == p or p[: len(path)] == path for p in _paths(above))
        assert in_the_way or value == result[path]
    assert set(result) <= set(upper) | set(leaves(below))


def _paths(table: dict[str, Any]) -> set[tuple[str, ...]]:
    """Paths of values and of empty tables: what can stand in place of something."""
    found: set[tuple[str, ...]] = set()
    for key, value in table.items():
        inner = {(key, *p) for p in _paths(value)} if isinstance(value, dict) else set()
        found |= inner or {(key,)}
    return found


@given(TABLES, TABLES)
def test_every_value_has_one_origin_and_it_is_true(below: dict[str, Any], above: dict[str, Any]) -> None:
    """The origins name exactly the values, and the document named does hold that value."""
    result = merged(below, above)
    values = leaves(result.values)

    assert {dotted(path) for path in values} == set(result.origin)
    for path, value in values.items():
        assert value == leaves((below, above)[int(result.origin[dotted(path)])])[path]


@given(TABLES)
def test_merging_with_nothing_or_with_itself_changes_nothing(table: dict[str, Any]) -> None:
    """An empty drop-in is no drop-in."""
    assert table == merged(table, {}).values == merged({}, table).values == merged(table, table).values


def test_dotted_keys_are_toml() -> None:
    """Names that TOML must quote are quoted; list elements are numbered."""
    assert 'tune.settings."/sys/x"' == dotted(("tune", "settings", "/sys/x"))
    assert "layout[0].gpu" == dotted(("layout", 0, "gpu"))


def test_a_key_that_is_missing_is_traced_to_the_table_around_it() -> None:
    """The base document is blamed where it has part of the table, else whoever has."""
    result = merged({"a": {"x": 1}}, {"a": {"y": 2}, "b": {"z": 3}})

    assert "0" == result.origin_of(("a", "missing"))
    assert "1" == result.origin_of(("b", "missing"))
    assert "0" == result.origin_of(("nowhere",))
