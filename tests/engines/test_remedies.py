"""What is likely to help, by an engine's first cause."""

from __future__ import annotations

from pathlib import Path

import pytest

from kboot.engines import engine
from kboot.engines.logs import LogReader
from kboot.engines.remedies import remedy

LOGS = Path(__file__).parent / "logs"


@pytest.mark.parametrize(
    ("log", "cause", "process", "help_"),
    [
        (
            "vllm-0.26-failed-missing-module.log",
            "ModuleNotFoundError: No module named 'flashinfer'",
            "Worker",
            "install flashinfer in the engine's environment",
        ),
        (
            "vllm-0.26-failed-nvcc-missing-header.log",
            "fatal error: cute/util/type_traits.hpp: No such file or directory",
            "Worker_DP0_EP0",
            "lacks the header cute/util/type_traits.hpp",
        ),
    ],
)
def test_a_recorded_failure_names_cause_rank_and_remedy(log: str, cause: str, process: str, help_: str) -> None:
    """One line among hundreds: what failed first, on which rank, and what to do."""
    reader = LogReader(engine("vllm"), 0.0)
    for line in (LOGS / log).read_text().splitlines():
        seconds, _, text = line.strip().partition(" ")
        reader.feed(float(seconds) if seconds.replace(".", "").isdigit() else 0.0, text)
    failure = reader.failure()

    assert failure is not None
    assert cause in failure.text
    assert failure.process.startswith("Worker")
    assert help_ in (remedy(failure.text) or "")


@pytest.mark.parametrize(
    ("cause", "words"),
    [
        ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB", "kboot fit"),
        (
            "ValueError: The model's max seq len (1048576) is larger than the maximum number of tokens that can be "
            "stored in KV cache (88069).",
            "lower --max-model-len",
        ),
        ("ValueError: Free memory on device (3.1/79.1 GiB) on startup is less than desired", "gpu.idle_clean"),
        ("KeyError: 'invalid tool call parser: kimi_k4'", "kboot plan"),
        ("vllm serve: error: unrecognized arguments: --no-such", "does not know --no-such"),
        ("FileNotFoundError: Weight files referenced in index but missing: ['a']", "kboot verify --repair"),
        ("safetensors_rust.SafetensorError: Error while deserializing header", "--mode full --repair"),
        ("RuntimeError: Error 802: system not yet initialized", "fabric manager"),
        ("OSError: [Errno 28] No space left on device", "/dev/shm"),
    ],
)
def test_common_causes_have_a_next_step(cause: str, words: str) -> None:
    """Each names a command or a setting."""
    assert words in (remedy(cause) or "")


def test_what_nobody_knows_has_none() -> None:
    """No advice is better than a guess."""
    assert remedy("RuntimeError: something else") is None
