"""Work that goes on while the engine starts."""

from __future__ import annotations

import importlib.util
import os
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from kboot.apply.beside import begin, with_beside
from kboot.apply.outcome import Effect, carry_out
from kboot.apply.run import Ran, Tools
from kboot.errors import ActionFailed
from kboot.events import Event, FileDone
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


def test_a_boot_whose_page_cache_could_not_be_warmed_is_degraded() -> None:
    """The engine answers all the same; the report says what failed, in the order of time."""
    error = ActionFailed("warm-failed", "no")
    failed = Outcome("warm", "warm x", "cold", "failed", 1.0, 1.0, error=error)
    serve, warm = Span("serve", "kboot", 2.0, 9.0), Span("warm", "kboot", 1.0, 2.0)
    report = with_beside(replace(REPORT, spans=(serve,)), Ran((warm,), (failed,), "degraded"))

    assert ("degraded", error, (warm, serve)) == (report.status, report.error, report.spans)
