"""Boots of vLLM that were recorded on 2x H200 and ended before they served, as timelines."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from kboot.engines import engine
from kboot.engines.logs import LogReader
from kboot.report.engine import engine_spans
from kboot.report.text_timeline import timeline_text
from kboot.report.timeline import Timeline, make_timeline
from kboot.report.types import BootReport, Span

LOGS = Path(__file__).parents[1] / "engines/logs"
T0 = 1_796_020_000.0
Golden = Callable[[str, str], None]
DONE = ("cold-flashinfer-jit", "flashinfer-jit-again", "second-boot-deepgemm-jit")
NAMES = {
    "cold-flashinfer-jit": "boot1-cold-flashinfer-jit",
    "flashinfer-jit-again": "boot2-flashinfer-jit-again",
    "second-boot-deepgemm-jit": "second-boot-deepgemm-jit",
}


def boot(name: str, at: float = T0) -> BootReport:
    """Return the boot whose engine wrote this log; each line begins with seconds since the engine's start."""
    reader = LogReader(engine("vllm"), at)
    end = at
    for line in (LOGS / f"vllm-0.26-{NAMES[name]}.log").read_text().splitlines():
        end = at + float(line[:8])
        reader.feed(end, line[9:])
    serve = Span("serve", "kboot", at, end, status="interrupted")
    return BootReport(
        *("7f3a0000", name, "c" * 40, "interrupted", at, end, None, None, "ledger", "", "key"),
        spans=(serve, *engine_spans(reader, end)),
        outcomes=(),
        warnings=(),
        error=None,
    )


def timeline(name: str) -> Timeline:
    return make_timeline(boot(name))


@pytest.mark.parametrize("name", DONE)
def test_a_recorded_boot_reads_as_it_was(golden: Golden, name: str) -> None:
    """Each phase that the log tells is a bar, the longest is named, and one that did not end says so."""
    golden(f"recorded-{name}.txt", timeline_text(timeline(name)))


@pytest.mark.parametrize("name", DONE)
def test_no_second_of_a_recorded_boot_is_lost_or_counted_twice(name: str) -> None:
    """The critical path is as long as the boot, in order, without gaps."""
    found = timeline(name)

    assert found.total_s == pytest.approx(sum(step.seconds for step in found.critical), abs=0.1)
    assert sorted(s.start_unix_s for s in found.critical) == [s.start_unix_s for s in found.critical]
