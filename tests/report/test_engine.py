"""How do the phases that an engine's log tells look on the timeline?"""

from __future__ import annotations

from dataclasses import replace

from report_samples import T0, demo_boot

from kboot.engines import engine
from kboot.engines.logs import LogReader
from kboot.report.engine import engine_spans, ready_at, with_start
from kboot.report.text_timeline import timeline_text
from kboot.report.timeline import make_timeline
from kboot.report.types import Span


def two_ranks() -> LogReader:
    """A phase that one of two ranks leaves 17 s before the other, and one that has not ended."""
    reader = LogReader(engine("vllm"), T0)
    for second, rank, text in (
        (1.0, 0, "Starting to load model /m..."),
        (1.5, 1, "Starting to load model /m..."),
        (29.1, 1, "Model loading took 1.5 GiB memory and 28.0 seconds"),
        (46.3, 0, "Model loading took 1.5 GiB memory and 45.2 seconds"),
        (47.0, 0, "Running FlashInfer autotune with 8192 tokens"),
    ):
        line = f"(Worker_DP{rank}_EP{rank} pid={rank}) INFO 11-30 06:29:37 [x.py:1] {text}"
        reader.feed(T0 + second, line)
    return reader


def test_a_phase_of_several_ranks_says_what_its_bar_is_made_of() -> None:
    """First start to last end, and in words the fastest and the slowest rank with its name."""
    load, tune = engine_spans(two_ranks(), T0 + 50.0)

    assert (T0 + 1.0, T0 + 46.3, "done") == (load.start_unix_s, load.end_unix_s, load.status)
    assert "2 ranks: 27.6 s (Worker_DP1_EP1) to 45.3 s (Worker_DP0_EP0)" == load.detail
    assert (T0 + 50.0, "unfinished", "") == (tune.end_unix_s, tune.status, tune.detail)


def test_the_slow_rank_is_named_beside_what_took_longest() -> None:
    """Who reads that loading took longest reads in the same line which rank made it so."""
    spans = (Span("serve", "kboot", T0, T0 + 50.0), *engine_spans(two_ranks(), T0 + 50.0))
    boot = replace(demo_boot(), started_unix_s=T0, ready_unix_s=T0 + 50.0, spans=spans)
    text = " ".join(timeline_text(make_timeline(boot)).split())

    assert "45.3 s load model, 91 % of the boot; 2 ranks: 27.6 s (Worker_DP1_EP1) to 45.3 s (Worker_DP0_EP0)" in text


PREPARED = replace(demo_boot(), started_unix_s=T0 - 20, finished_unix_s=T0 - 1, ready_unix_s=None)


def test_the_start_that_follows_a_boot_belongs_to_it() -> None:
    """A service that starts its engine at once: the boot is over when the engine answers, with all of its phases."""
    found = with_start(PREPARED, two_ranks(), T0 + 48.0)

    assert found is not None
    assert (T0 - 20, T0 + 48.0, T0 + 48.0) == (found.started_unix_s, found.ready_unix_s, found.finished_unix_s)
    assert [*PREPARED.spans] == [*found.spans[: len(PREPARED.spans)]]
    assert ["serve", "load model", "FlashInfer autotune"] == [s.name for s in found.spans[len(PREPARED.spans) :]]


def test_a_start_that_nobody_waited_for_is_a_report_of_its_own() -> None:
    """Hours of standing by are no part of a boot: what is timed begins with the engine."""
    stood_by = replace(PREPARED, started_unix_s=T0 - 9000, finished_unix_s=T0 - 8000)
    found = with_start(stood_by, two_ranks(), T0 + 48.0)

    assert found is not None
    assert (T0, ["serve", "load model", "FlashInfer autotune"]) == (found.started_unix_s, [s.name for s in found.spans])
    assert make_timeline(found, [replace(PREPARED, ready_unix_s=T0)]).comparison is None


def test_a_start_that_does_not_follow_leaves_the_boot_as_it_is() -> None:
    """The engine was running before, was started again, or the boot failed."""
    for report in (
        replace(PREPARED, started_unix_s=T0 + 1),
        replace(PREPARED, ready_unix_s=T0),
        replace(PREPARED, status="failed"),
    ):
        assert with_start(report, two_ranks(), T0 + 48.0) is None


def test_ready_is_when_the_log_says_so() -> None:
    """Whoever asks every second sees the answer up to a second later; without the line that is what counts."""
    reader = two_ranks()
    assert T0 + 50.0 == ready_at(reader, T0 + 50.0)
    ended = "init engine (profile, create kv cache, warmup model) took 9.1 s"
    reader.feed(T0 + 48.0, f"(EngineCore_DP0 pid=1) INFO 11-30 06:29:15 [core.py:1] {ended}")
    reader.feed(T0 + 49.2, "INFO:     Application startup complete.")
    assert T0 + 49.2 == ready_at(reader, T0 + 50.0)
