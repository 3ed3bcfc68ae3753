#!/usr/bin/env python3
"""How does loading get slower with more threads than CPUs? The loader of `benchmarks/run pin`, with doses of threads.

    python benchmarks/gpu/doses.py [--workers 8] [--rounds 3]

All workers start at once on this machine's CPUs, each with its share of threads (CPUs ÷ workers), twice and four times
as many, the default (a thread for each CPU), and as kboot starts them: the share, CPUs of their own, passive waiting.
Prints one JSON document. Needs gcc with OpenMP and a Python that has kboot.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from kbench import pin
from kbench.machine import host_facts

from kboot.plan.placement import place
from kboot.profile.types import CpuAsk


def ways(workers: int, cpus: int) -> Mapping[str, pin.Way]:
    """Return the doses by name, smallest first, and kboot's way."""
    share = max(1, cpus // workers)
    doses = {f"{n} threads": pin.Way((), {"OMP_NUM_THREADS": str(n)}) for n in (share, 2 * share, 4 * share)}
    kboot = pin.kboots_way(place(pin.this_node(), workers, CpuAsk()))
    return {"kboot": kboot, **doses, f"default ({cpus} threads)": pin.Way((), {})}


def measure(workers: int, rounds: int, work: Path) -> dict[str, Any]:
    """Return the medians of each way.

    Raises:
        RuntimeError: the loader cannot be built, or a worker failed.
    """
    loader, why = pin.build(work)
    if loader is None:
        raise RuntimeError(why)
    words = pin.checkpoint(work, loader)
    passes = max(1, round(pin.ALONE_S / pin.alone_s(words)))
    compared = ways(workers, len(os.sched_getaffinity(0)))
    took: dict[str, list[pin.Took]] = {name: [] for name in compared}
    for number in range(rounds):
        names = list(compared)
        for name in names[number % len(names) :] + names[: number % len(names)]:
            took[name].append(pin.load((*words, str(passes)), compared[name], workers))
    found = {name: pin.told(runs) for name, runs in took.items()}
    ratios = {
        name: round(median(r.wall_s / k.wall_s for r, k in zip(runs, took["kboot"])), 2) for name, runs in took.items()
    }
    return {"workers": workers, "rounds": rounds, "ways": found, "over_kboot": ratios, "host": host_facts()}


def main() -> int:
    """Print the document."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=3)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="kboot-doses-") as work:
        print(json.dumps(measure(asked.workers, asked.rounds, Path(work)), indent=1))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
