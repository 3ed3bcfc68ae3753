"""Boots of SGLang and TokenSpeed as timelines, from the lines that their sources write; none of them was recorded."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from kboot.engines import engine
from kboot.engines.logs import LogReader
from kboot.profile.types import EngineName
from kboot.report.engine import engine_spans, ready_at, serve_span
from kboot.report.text_timeline import timeline_text
from kboot.report.timeline import Timeline, make_timeline
from kboot.report.types import BootReport

T0 = 1_796_020_000.0
Golden = Callable[[str, str], None]
Log = tuple[tuple[float, str], ...]


def tp(rank: int, text: str) -> str:
    """Return a line of an SGLang scheduler."""
    return f"[2026-11-30 06:27:00 TP{rank}] {text}"


SGLANG: Log = (
    (31.0, tp(0, "Init torch distributed begin.")),
    (31.4, tp(1, "Init torch distributed begin.")),
    (38.2, tp(0, "Init torch distributed ends. elapsed=7.20 s, mem usage=1.21 GB")),
    (38.2, tp(1, "Init torch distributed ends. elapsed=6.80 s, mem usage=1.21 GB")),
    (38.9, tp(0, "Load weight begin. avail mem=139.02 GB")),
    (39.1, tp(1, "Load weight begin. avail mem=139.02 GB")),
    (57.3, tp(1, "Load weight end. elapsed=18.20 s, type=KimiK3ForCausalLM, dtype=torch.bfloat16")),
    (81.0, tp(0, "Load weight end. elapsed=42.10 s, type=KimiK3ForCausalLM, dtype=torch.bfloat16")),
    (84.5, tp(0, "Memory pool end. avail mem=21.40 GB")),
    (85.0, tp(0, "Running FlashInfer autotune with cache: /c/flashinfer.json")),
    (99.0, tp(0, "FlashInfer autotune completed.")),
    (99.2, tp(0, "Capture decode CUDA graph begin. This can take up to several minutes. avail mem=20.91 GB")),
    (121.7, tp(0, "Capture decode CUDA graph end. mem usage=2.10 GB, elapsed=22.50 s")),
    (122.0, "[2026-11-30 06:28:42] max_total_num_tokens=1048576, chunked_prefill_size=8192"),
    (128.6, "[2026-11-30 06:28:48] The server is fired up and ready to roll!"),
)


def timing(phase: str, rank: int, duration_s: float | None = None) -> str:
    """Return a record of TOKENSPEED_STARTUP_TIMING."""
    record = {"phase": phase, "rank": rank, "pid": 70 + rank, "span_id": f"{rank}-{phase}", "wall_time_ns": 1}
    return "[ts] startup_timing " + json.dumps(record if duration_s is None else {**record, "duration_s": duration_s})


TOKENSPEED: Log = (
    (22.0, timing("distributed.init", 0)),
    (26.5, timing("distributed.init", 0, 4.5)),
    (26.6, timing("weights.target", 0)),
    (26.7, timing("weights.read_copy", 0)),
    (49.7, timing("weights.read_copy", 0, 23.0)),
    (49.7, timing("weights.postprocess", 0)),
    (52.9, timing("weights.postprocess", 0, 3.2)),
    (53.0, timing("weights.target", 0, 26.4)),
    (53.1, timing("kv.build", 0)),
    (55.0, timing("kv.build", 0, 1.9)),
    (55.2, timing("kernels.autotune", 0)),
    (96.2, timing("kernels.autotune", 0, 41.0)),
    (96.3, "[ts] Kernel startup tuning finished in 41.0s"),
    (96.4, timing("graph.capture", 0)),
    (108.9, timing("graph.capture", 0, 12.5)),
    (112.0, "[smg] gateway listens on 0.0.0.0:8000"),
)


def timeline(name: EngineName, log: Log) -> Timeline:
    """Return the boot whose engine was started at T0 and answered with its last line."""
    reader = LogReader(engine(name), T0)
    for second, line in log:
        reader.feed(T0 + second, line)
    ready = ready_at(reader, T0 + log[-1][0])
    spans = (serve_span(T0, ready), *engine_spans(reader, ready))
    common = ("7f3a0000", name, "c" * 40, "done", T0, ready, None, ready, "ledger", "", "key")
    return make_timeline(BootReport(*common, spans=spans, outcomes=(), warnings=(), error=None))


BOOTS = [("sglang", SGLANG), ("tokenspeed", TOKENSPEED)]


@pytest.mark.parametrize(("name", "log"), BOOTS, ids=[name for name, _ in BOOTS])
def test_a_boot_reads_as_its_lines_say(golden: Golden, name: EngineName, log: Log) -> None:
    """Every phase that the lines name is a bar as long as the engine says, and the slow rank is named."""
    golden(f"documented-{name}.txt", timeline_text(timeline(name, log)))


@pytest.mark.parametrize(("name", "log"), BOOTS, ids=[name for name, _ in BOOTS])
def test_every_phase_that_the_adapter_knows_and_the_log_names_has_ended(name: EngineName, log: Log) -> None:
    """Nothing is left open, and the path to the answer is as long as the boot."""
    found = timeline(name, log)

    assert {"done"} == {span.status for span in found.spans}
    assert found.total_s == pytest.approx(sum(step.seconds for step in found.critical), abs=0.1)
