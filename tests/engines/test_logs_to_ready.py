"""Two boots of vLLM 0.26.0 on 2x H200 that were taken as far as an answer; DeepGEMM and FlashInfer were off."""

from __future__ import annotations

from pathlib import Path

import pytest

from kboot.engines import engine
from kboot.engines.logs import CacheSaid, LogReader

LOGS = Path(__file__).parent / "logs"
STARTED_S = {"first": 10.21, "second": 11.06}
"""When the engine was started in them: before, kboot fetched 18 GiB, or read them into the page cache."""


def recorded(name: str) -> LogReader:
    """Read a recorded log; each line begins with seconds since kboot was started."""
    reader = LogReader(engine("vllm"), STARTED_S[name])
    for line in (LOGS / f"vllm-0.26-{name}-boot-to-ready.log").read_text().splitlines():
        reader.feed(float(line[:8]), line[9:])
    return reader


def lengths(name: str) -> dict[str, float | None]:
    """Return each phase's seconds."""
    return {s.name: None if s.seconds is None else round(s.seconds, 1) for s in recorded(name).spans()}


def test_every_phase_of_a_first_boot_ends() -> None:
    """From the first interpreter to the listening server: nothing is left open, interpreters take half of it."""
    assert {
        "front end": 52.0,
        "engine cores": 12.6,
        "workers": 12.9,
        "distributed init": 1.4,
        "load model": 5.7,
        "read weights": 3.7,
        "compile": 33.5,
        "profiling run": 3.9,
        "size KV cache": 4.6,
        "graph capture": 26.0,
        "start server": 2.0,
    } == lengths("first")
    assert recorded("first").current() is None


def test_a_second_boot_takes_half_of_a_first() -> None:
    """Compiled Python halves the front end, compiled graphs leave a fifth of compiling, capture is anew."""
    first, second = lengths("first"), lengths("second")

    assert first.keys() == second.keys()
    assert [26.3, 6.6, 19.0] == [second[name] for name in ("front end", "compile", "graph capture")]


@pytest.mark.parametrize(("name", "compiled"), [("first", (0, 1)), ("second", (2, 0))])
def test_a_startup_plan_that_was_saved_is_not_used(name: str, compiled: tuple[int, int]) -> None:
    """0.26.0 saves the same plan in both boots and applies it in neither: a miss each time, as its log says."""
    startup = CacheSaid("startup plan", hits=0, misses=2)

    assert (startup, CacheSaid("torch.compile", *compiled)) == recorded(name).caches()


@pytest.mark.parametrize("name", ["first", "second"])
def test_an_error_in_a_warning_is_no_failure(name: str) -> None:
    """A warm-up of the chat template failed without a tokenizer, was logged as a warning, and the server started."""
    assert recorded(name).failure() is None


def test_a_share_that_is_given_is_not_reported() -> None:
    """With OMP_NUM_THREADS set, 0.26.0 says nothing of its threads: what a worker has is seen from outside only."""
    assert {} == recorded("first").threads()
