"""The engine's compiled Python: where it is, and when it must be made."""

from __future__ import annotations

from dataclasses import replace

import literals
import pytest

from kboot.facts.types import CacheFacts, EngineFacts, NodeFacts
from kboot.plan.bytecode import bytecode_dir, plan_bytecode, plan_engine_files, with_engine_files
from kboot.plan.types import CompileBytecode, Phase
from kboot.profile.types import LayoutAsk

pytestmark = pytest.mark.no_io
VLLM = EngineFacts("vllm", "0.26.0", "/opt/vllm/bin/python3", {"torch": "2.11.0"})
LAYOUT = LayoutAsk(name="two", gpu="H200", gpus_per_node=2)


RECORDED = literals.hgx_h100()


@pytest.fixture
def facts() -> NodeFacts:
    """A node with vLLM and nothing compiled."""
    return replace(RECORDED, engine=VLLM, caches=CacheFacts({}, frozenset()))


def test_everything_is_compiled_once(facts: NodeFacts) -> None:
    """The first boot compiles into a folder of the state; a later one finds it whole and has nothing to do."""
    folder = bytecode_dir(facts, LAYOUT, "/state/bytecode")
    later = replace(facts, caches=replace(facts.caches, bytecode=frozenset({folder.rpartition("/")[2]})))

    assert folder.startswith("/state/bytecode/vllm0.26.0-")
    assert [(VLLM.interpreter, folder)] == [(a.python, a.folder) for a in plan_bytecode(facts, folder)]
    assert isinstance(plan_bytecode(facts, folder)[0], CompileBytecode)
    assert () == plan_bytecode(later, folder)


@pytest.mark.parametrize(
    "other",
    [
        replace(VLLM, version="0.27.0"),
        replace(VLLM, interpreter="/opt/other/bin/python3"),
        replace(VLLM, packages={"torch": "2.12.0"}),
    ],
)
def test_another_engine_has_another_folder(facts: NodeFacts, other: EngineFacts) -> None:
    """A new version, interpreter or package is compiled anew."""
    assert bytecode_dir(facts, LAYOUT, "/b") != bytecode_dir(replace(facts, engine=other), LAYOUT, "/b")


@pytest.mark.parametrize("engine", ["demo", "command"])
def test_what_is_no_python_engine_is_left_alone(facts: NodeFacts, engine: str) -> None:
    """A command line of somebody else, and the demo, keep their own habits; so does a node with caches turned off."""
    layout = replace(LAYOUT, engine=engine)  # type: ignore[arg-type]

    assert "" == bytecode_dir(replace(facts, engine=replace(VLLM, name=engine)), layout, "/b")
    assert "" == bytecode_dir(facts, LAYOUT, "")
    assert () == plan_bytecode(facts, "")


def test_the_engines_own_files_are_read_once_after_each_start(facts: NodeFacts) -> None:
    """A quarter of the memory for warming at most; a later boot of the same kernel has nothing to do."""
    folder = bytecode_dir(facts, LAYOUT, "/state/bytecode")
    name = folder.rpartition("/")[2]
    (action,) = plan_engine_files(facts, folder, "/run/warmed", 4 << 30)
    later = replace(facts, caches=replace(facts.caches, warmed=frozenset({name})))

    assert (VLLM.interpreter, folder, f"/run/warmed/{name}") == (action.python, action.folder, action.marker)
    assert [1 << 30, 8 << 30] == [
        plan_engine_files(facts, folder, "/run/warmed", budget)[0].limit_bytes for budget in (4 << 30, 1 << 40)
    ]
    assert ((), (), ()) == (
        plan_engine_files(later, folder, "/run/warmed", 4 << 30),
        plan_engine_files(facts, "", "/run/warmed", 4 << 30),
        plan_engine_files(facts, folder, "", 4 << 30),
    )


def test_no_handoff_waits_for_the_engines_own_files(facts: NodeFacts) -> None:
    """They are read in the phase that goes on beside the start, also where the checkpoint is fetched first."""
    folder = bytecode_dir(facts, LAYOUT, "/state/bytecode")
    compiling, reading = plan_bytecode(facts, folder), plan_engine_files(facts, folder, "/run/warmed", 4 << 30)
    cache, fetch = Phase("cache", (), compiling), Phase("fetch", (), compiling)
    warm = Phase("warm", ("fetch", "verify"), (), "all of it is in memory")

    assert (cache, fetch, replace(warm, actions=reading, note="")) == with_engine_files((cache, fetch, warm), reading)
    assert (cache, fetch, warm) == with_engine_files((cache, fetch, warm), ())
