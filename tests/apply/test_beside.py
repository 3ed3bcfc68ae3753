"""Work that goes on while the engine starts."""

from __future__ import annotations

import importlib.util
import os
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from kboot.apply.beside import begin, follow, with_beside
from kboot.apply.outcome import Effect, carry_out
from kboot.apply.run import Ran, Tools
from kboot.errors import ActionFailed
from kboot.events import Event, FileDone, Notice
from kboot.plan.types import Phase, WarmFile, WriteHandoff
from kboot.profile.types import CheckpointAsk, LayoutAsk, Profile
from kboot.report.types import BootReport, Outcome, Span
from kboot.store.store import Store

_spec = importlib.util.spec_from_file_location("checkpoints", Path(__file__).parents[1] / "fakes" / "checkpoints.py")
assert _spec and _spec.loader
fake = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(fake)

FILES = {f"model-{n}.safetensors": fake.shard({"w": 1 << 20}, n) for n in range(12)}
LISTING = fake.listing(FILES)
RECORD = WriteHandoff("test")
REPORT = BootReport("b", "p", "c", "done", 0.0, 9.0, None, None, "ledger", "", "", (), (), (), None)
PROFILE = Profile(
    name="p",
    schema=1,
    checkpoint=CheckpointAsk(repo="a/b"),
    layout=(LayoutAsk(name="l", gpu="none", gpus_per_node=0, engine="demo"),),
)


@pytest.fixture
def tools(tmp_path: Path) -> Tools:
    """Tools over a checkpoint on disk."""
    store = Store(fake.paths_in(tmp_path))
    fake.fetch_all(store, LISTING, FILES)
    done = carry_out("handoff", RECORD, Effect)
    return Tools(PROFILE, LISTING, store, (), 2, 1 << 40, lambda _: done, lambda _: None, threading.Event())


def test_what_goes_on_beside_does_not_hold_up_its_beginner(tools: Tools) -> None:
    """`begin` returns while the work is under way; `end` waits for what has begun, and twice is once."""
    may_end = threading.Event()

    def write(action: WriteHandoff) -> Outcome:
        assert may_end.wait(30)
        return carry_out("handoff", action, Effect)

    beside = begin((Phase("handoff", (), (RECORD,)),), replace(tools, write_handoff=write))
    assert not beside.running.done()
    may_end.set()

    assert ["done"] == [o.status for o in beside.end("x").outcomes]
    assert ["done"] == [o.status for o in beside.end("x").outcomes]


def test_what_is_not_done_at_the_end_is_left_and_says_why(tools: Tools) -> None:
    """The engine answers while the page cache is warmed: files that are being read end, the others are left."""
    blobs = [tools.store.blob_path(LISTING.repo, f.blob_id) for f in LISTING.files]
    for blob in blobs:
        fd = os.open(blob, os.O_RDONLY)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(fd)
    begun, ending = threading.Event(), threading.Event()

    def emit(event: Event) -> None:
        if isinstance(event, FileDone):
            begun.set()
            assert ending.wait(30)

    warm = Phase("warm", (), tuple(WarmFile(f, 0, "test") for f in LISTING.files))
    beside = begin((warm,), replace(tools, emit=emit))
    assert begun.wait(30)
    beside.stop.set()
    ending.set()
    outcomes = beside.end("the engine answered before").outcomes
    left = [o for o in outcomes if o.status == "skipped"]

    assert len(FILES) == len(outcomes)
    assert {"the engine answered before"} == {o.reason for o in left}
    assert not any(o.status == "failed" for o in outcomes)


def asked_after(seconds: float) -> BootReport:
    """A boot whose engine asked for the weights so long after its start."""
    spans = Span("serve", "kboot", 0.0, 900.0), Span("load model", "engine", seconds, 800.0)
    return replace(REPORT, profile="p", ready_unix_s=900.0, spans=spans)


class Held:
    """Weights that wait for an engine's first words, behind a record that does not. events: what was emitted."""

    def __init__(self, tools: Tools, asked_s: float) -> None:
        written = threading.Event()
        self.events: list[Event] = []

        def write(action: WriteHandoff) -> Outcome:
            written.set()
            return carry_out("handoff", action, Effect)

        phase = Phase("warm", (), (RECORD, *(WarmFile(f, 0, "test") for f in LISTING.files)))
        tools = replace(tools, write_handoff=write, emit=self.events.append)
        self.beside = begin((phase,), tools, [asked_after(asked_s)])
        assert written.wait(30)

    def read(self) -> list[str]:
        """Return the files that were looked at."""
        return [e.path for e in self.events if isinstance(e, FileDone)]


def test_weights_wait_for_the_engines_first_words(tools: Tools) -> None:
    """The engine will ask for them much later: what else there is to do is done, they are read once it has spoken."""
    held = Held(tools, 3600.0)
    assert [] == held.read()
    held.beside.engine_speaks()
    ran = held.beside.running.result(30)

    assert len(FILES) == len(held.read())
    assert ("done", 1 + len(FILES), ["warm", "warm"]) == (ran.status, len(ran.outcomes), [s.name for s in ran.spans])
    assert ["warm.waits"] == [e.event for e in held.events if isinstance(e, Notice)]


def test_weights_that_wait_are_left_when_the_engine_has_gone(tools: Tools) -> None:
    """Nobody waits for the end of the time: they are told as left."""
    held = Held(tools, 3600.0)
    outcomes = held.beside.end("the engine did not start").outcomes

    assert [] == held.read()
    assert ["done", *["skipped"] * len(FILES)] == [o.status for o in outcomes]
    assert {"test", "the engine did not start"} == {o.reason for o in outcomes}


def test_weights_wait_no_longer_than_there_is_time(tools: Tools) -> None:
    """An engine that says nothing: they are read before it asks."""
    held = Held(tools, 0.2)
    held.beside.running.result(30)

    assert len(FILES) == len(held.read())
    assert not held.beside.spoken.is_set()


def test_what_is_left_is_left_when_an_engine_of_its_own_answers(tools: Tools) -> None:
    """It has read its weights itself; so it is when kboot is told to stop."""
    stop = threading.Event()
    answered = follow(Held(tools, 3600.0).beside, lambda: True, stop)
    stop.set()
    stopped = follow(Held(tools, 3600.0).beside, lambda: False, stop)

    assert {"test", "the engine answered before"} == {o.reason for o in answered.outcomes}
    assert ["done", *["skipped"] * len(FILES)] == [o.status for o in stopped.outcomes]


def test_what_goes_on_beside_an_engine_of_its_own_is_done_to_its_end(tools: Tools) -> None:
    """An engine that does not answer meanwhile, or is not there at all."""
    held = Held(tools, 0.2)
    ran = follow(held.beside, lambda: False, threading.Event())

    assert len(FILES) == len(held.read())
    assert "skipped" not in {o.status for o in ran.outcomes}


def test_weights_do_not_wait_where_there_is_no_time_or_nothing_to_read(tools: Tools) -> None:
    """The first boot; a page cache that has everything."""
    events: list[Event] = []
    tools = replace(tools, emit=events.append)
    cold = Phase("warm", (), tuple(WarmFile(f, 0, "test") for f in LISTING.files))
    there = Phase("warm", (), tuple(WarmFile(f, f.size_bytes, "test") for f in LISTING.files))

    assert "done" == begin((cold,), tools).running.result(30).status
    assert "done" == begin((there,), tools, [asked_after(3600.0)]).running.result(30).status
    assert [] == [e for e in events if isinstance(e, Notice)]


def test_a_boot_whose_page_cache_could_not_be_warmed_is_degraded() -> None:
    """The engine answers all the same; the report says what failed, in the order of time."""
    error = ActionFailed("warm-failed", "no")
    failed = Outcome("warm", "warm x", "cold", "failed", 1.0, 1.0, error=error)
    serve, warm = Span("serve", "kboot", 2.0, 9.0), Span("warm", "kboot", 1.0, 2.0)
    report = with_beside(replace(REPORT, spans=(serve,)), Ran((warm,), (failed,), "degraded"))

    assert ("degraded", error, (warm, serve)) == (report.status, report.error, report.spans)
