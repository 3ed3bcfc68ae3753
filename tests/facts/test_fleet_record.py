"""What nodes state is written down and read back; whatever else is there is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kboot.facts.collect import collect
from kboot.facts.fleet_record import record_from_text, record_to_bytes, statement_from_json, statement_to_json
from kboot.facts.fleet_types import FleetRecord, NodeStatement
from kboot.host.paths import find_paths
from kboot.host.recorded import RecordedHost

RECORD = FleetRecord("b00t", 1_800_000_000.5, True, "c0ffee", (NodeStatement("n1", {"driver": "580"}, 5),))


def test_a_record_says_the_same_when_it_is_read() -> None:
    """All of it."""
    assert RECORD == record_from_text(record_to_bytes(RECORD))


@pytest.mark.parametrize(
    "change",
    [
        {"schema": 2},
        {"kind": "facts"},
        {"boot_id": 1},
        {"unix_s": "soon"},
        {"unix_s": True},
        {"statements": {}},
        {"statements": [1]},
        {"statements": [{"name": "a", "values": {"x": 1}, "gpu_free_bytes": None}]},
        {"statements": [{"name": "a", "values": {}, "gpu_free_bytes": -1}]},
        {"statements": [{"name": "a", "values": {}, "gpu_free_bytes": 1.5}]},
        {"statements": [{"name": "a" * 2000, "values": {}}]},
        {"statements": [{"name": "a", "values": dict.fromkeys(map(str, range(300)), "")}]},
    ],
)
def test_any_other_text_is_refused(change: dict[str, object]) -> None:
    """A missing or wrong value anywhere."""
    with pytest.raises(ValueError, match=r"."):
        record_from_text(json.dumps({**json.loads(record_to_bytes(RECORD)), **change}))


@given(st.text() | st.binary())
def test_no_text_whatever_does_more_than_be_refused(text: str | bytes) -> None:
    """Whoever wrote it."""
    with pytest.raises(ValueError, match=r"."):
        record_from_text(text)


@given(st.from_type(NodeStatement))
def test_a_statement_never_grows_beyond_its_bounds(statement: NodeStatement) -> None:
    """What is written can be read, cut to what a statement may hold."""
    small = NodeStatement(statement.name[:1000], statement.values, abs(statement.gpu_free_bytes or 0))

    assert small.name == statement_from_json(json.loads(json.dumps(statement_to_json(small)))).name


def test_a_node_knows_what_was_stated_when_the_fleet_met(tmp_path: Path) -> None:
    """The record of the runtime folder is a fact, on a recorded machine too; a broken one is none."""
    host, paths = RecordedHost(tmp_path), find_paths(tmp_path, {}, 0)
    assert () == collect(host, paths).fleet.statements
    paths.runtime.mkdir(parents=True)
    paths.fleet.write_bytes(record_to_bytes(RECORD))
    assert (RECORD.statements, RECORD.unix_s) == (
        collect(host, paths).fleet.statements,
        collect(host, paths).fleet.stated_unix_s,
    )

    paths.fleet.write_text("{")
    assert () == collect(host, paths).fleet.statements
