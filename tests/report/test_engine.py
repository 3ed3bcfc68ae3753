"""How do the phases that an engine's log tells look on the timeline?"""

from __future__ import annotations

from dataclasses import replace

from report_samples import T0, demo_boot

from kboot.engines import engine
from kboot.engines.logs import LogReader
from kboot.report.engine import engine_spans
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
