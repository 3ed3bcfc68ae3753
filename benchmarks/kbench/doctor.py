"""What does it cost to ask doctor, beside the tool that people ask first?"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from kbench.document import Document, Value
from kbench.kboot import kboot, node_env
from kbench.machine import wait_quiet

TIMEOUT_S = 60.0
RUNS_PER_ROUND = 3
"""A run is half a second, so a round has several."""
OTHER = ("nvidia-smi", "-q")
STATUSES = (0, 3, 4)
"""Doctor's answers; anything else is no run."""


@dataclass(frozen=True, slots=True)
class Cost:
    """Of one run, with the processes that it waited for."""

    wall_s: float
    cpu_s: float


def run(asked: argparse.Namespace, work: Path) -> Document:
    """Measure and return the document.

    Raises:
        RuntimeError: kboot is missing, or a run ended otherwise than with an answer.
    """
    node = work / "node"
    node.mkdir()
    env = node_env(node, "http://127.0.0.1:9")
    argv = (kboot(), "doctor", "--json")
    other = shutil.which(OTHER[0])
    answer = _answer(argv, env)  # the first run reads files and writes bytecode
    ours: list[Cost] = []
    theirs: list[Cost] = []
    for _ in range(asked.rounds):
        wait_quiet(asked.quiet_s)
        for _ in range(RUNS_PER_ROUND):
            ours.append(_cost(argv, env, STATUSES))
            if other:
                theirs.append(_cost((other, *OTHER[1:]), env, (0,)))
    counts = answer["counts"]
    figures: dict[str, Value] = {
        "quick_s": median(cost.wall_s for cost in ours),
        "quick_slowest_s": max(cost.wall_s for cost in ours),
        "quick_cpu_s": median(cost.cpu_s for cost in ours),
        "quick_inside_s": float(answer["seconds"]),
        "checks": sum(counts.values()),
        "checks_with_an_answer": counts["ok"] + counts["warn"] + counts["fail"],
        "runs": len(ours),
    }
    if not theirs:
        return Document("doctor", {}, figures, {"vs_nvidia_smi_q": "nvidia-smi not installed"})
    figures |= {
        "nvidia_smi_q_s": median(cost.wall_s for cost in theirs),
        "nvidia_smi_q_cpu_s": median(cost.cpu_s for cost in theirs),
    }
    ratio = median(their.wall_s / our.wall_s for our, their in zip(ours, theirs))
    return Document("doctor", {"vs_nvidia_smi_q": ratio}, figures)


def _answer(argv: Sequence[str], env: Mapping[str, str]) -> dict[str, Any]:
    done = subprocess.run(argv, env=dict(env), capture_output=True, timeout=TIMEOUT_S, check=False)
    if done.returncode not in STATUSES:
        raise RuntimeError(f"kboot doctor ended with {done.returncode}: {done.stderr.decode(errors='replace')[-500:]}")
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def _cost(argv: Sequence[str], env: Mapping[str, str], statuses: Sequence[int]) -> Cost:
    """Run a program to its end; its CPU time is what the kernel counted for it and for all that it waited for."""
    started = time.monotonic()
    child = subprocess.Popen(
        argv, env=dict(env), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode not in statuses:
        raise RuntimeError(f"{' '.join(argv[:3])}: exit status {child.returncode}")
    return Cost(time.monotonic() - started, usage.ru_utime + usage.ru_stime)
