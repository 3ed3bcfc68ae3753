"""Who answers on the engine's port?"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from fakes import records
from fakes.health import health
from kboot.apply.answering import Answering, answering, engine_answers
from kboot.apply.handoff import write_handoff
from kboot.apply.monitor import Monitor, Source
from kboot.facts.process import Tree
from kboot.host.paths import Paths
from kboot.host.real import RealHost
from kboot.plan.types import WriteHandoff

MINE = ("KBOOT_TEST_MARK", "mine")
RECORD = replace(records.RECORD, env=(MINE,))
PATIENCE_S = 30.0


def test_an_engine_is_known_by_what_it_was_started_with() -> None:
    """All that the record sets is in its environment; before it is ready, nobody answers."""
    with health(dict([MINE])) as engine:
        record = replace(RECORD, health_url=engine.url)
        assert Answering(False) == answering(record, RealHost(), PATIENCE_S)
        engine.is_ready(True)

        assert Answering(True) == answering(record, RealHost(), PATIENCE_S)


def test_another_process_is_named_and_is_no_engine() -> None:
    """It answers 200 on the engine's port; the record sets something else, or one thing more."""
    with health(dict([MINE])) as other:
        other.is_ready(True)
        for env in ((("KBOOT_TEST_MARK", "theirs"),), (MINE, ("KBOOT_TEST_MORE", "1"))):
            said = answering(replace(RECORD, health_url=other.url, env=env), RealHost(), PATIENCE_S)
            assert (False, f"held by pid {other.pid} (") == (said.answers, said.by.partition("(")[0] + "(")


def test_what_a_boot_started_is_its_engine() -> None:
    """A process below the one that serves needs no other proof."""
    with health({}) as engine:
        engine.is_ready(True)
        record = replace(RECORD, health_url=engine.url)

        assert Answering(True) == answering(record, RealHost(), PATIENCE_S, (Tree(os.getpid()),))


def test_where_nothing_can_be_known_nothing_is_claimed() -> None:
    """A record that sets nothing proves nobody; an engine without an address has nothing to ask."""
    with health({}) as engine:
        engine.is_ready(True)
        said = answering(replace(RECORD, health_url=engine.url, env=()), RealHost(), PATIENCE_S)

    assert (None, True) == (said.answers, said.by.startswith(f"held by pid {engine.pid} ("))
    assert Answering(None) == answering(RECORD, RealHost(), PATIENCE_S)


def test_a_node_with_another_server_on_its_port_is_not_ready(tmp_path: Path) -> None:
    """It says 200 to all: no request is sent to this node, and no work begins that waits for its engine."""
    paths = Paths(tmp_path / "state", tmp_path / "run", tmp_path / "etc")
    ready = Source(lambda: {"state": "ready", "text": ""}, lambda _: True, lambda: "")
    monitor = Monitor(ready, RealHost(), paths, lambda _: None, 0, "")
    assert not engine_answers(RealHost(), paths, PATIENCE_S), "there is no record yet"
    for mark, answers in (("mine", True), ("theirs", False)):
        with health({MINE[0]: mark}) as server:
            server.is_ready(True)
            assert write_handoff(WriteHandoff("test"), replace(RECORD, health_url=server.url), paths).error is None

            assert answers == engine_answers(RealHost(), paths, PATIENCE_S)
            assert answers == (monitor.why_not_ready() == "")
