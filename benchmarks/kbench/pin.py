"""What does its share do for a worker that loads weights beside others, and what does planning the shares cost?"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

from kbench.document import Document, Value
from kbench.machine import wait_quiet
from kboot.engines.common import UNSET, thread_settings
from kboot.engines.types import CpuPlacement
from kboot.facts.cpu import collect_cpu
from kboot.facts.numa import collect_numa
from kboot.facts.types import (
    CacheFacts,
    CpuFacts,
    EngineFacts,
    Gpu,
    GpuFacts,
    LimitFacts,
    MemoryFacts,
    NodeFacts,
    NumaNode,
    OsFacts,
    TuneFacts,
)
from kboot.host.real import RealHost
from kboot.plan.placement import place
from kboot.profile.types import CpuAsk

TIMEOUT_S = 600.0
TENSORS, TENSOR_BYTES = 32, 2 << 20
"""1024 x 2048 weights of one byte: the size of an expert's matrix, and short enough that threads mostly wait."""

ALONE_S = 0.25
"""How long one worker takes alone with one thread; all of them together take longer."""

PLANS = 50
SHARED = ("OMP_", "GOMP_", "KMP_", "MKL_", "OPENBLAS_")
SOURCE = Path(__file__).with_name("loader.c")


@dataclass(frozen=True, slots=True)
class Way:
    """How workers are started. cpus: of each; empty = not pinned. env: set on top of a clean environment."""

    cpus: tuple[tuple[int, ...], ...]
    env: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Took:
    """wall_s: until the last worker was done. switches: context switches of all; forced: those not asked for."""

    wall_s: float
    cpu_s: float
    switches: int
    forced: int


def run(asked: argparse.Namespace, work: Path) -> Document:
    """Measure and return the document; without gcc and OpenMP only the planning.

    Raises:
        RuntimeError: a worker failed.
    """
    figures: dict[str, Value] = {"plan_256_cpus_8_gpus_ms": plan_ms()}
    loader, why = build(work)
    if loader is None:
        return Document("pin", {}, figures, {"default_over_kboot": why})
    placement = place(this_node(), asked.workers, CpuAsk())
    ways = {"default": Way((), {}), "kboot": kboots_way(placement)}
    words = checkpoint(work, loader)
    passes = max(1, round(ALONE_S / alone_s(words)))
    took: dict[str, list[Took]] = {name: [] for name in ways}
    for number in range(asked.rounds):
        order = list(ways)[number % len(ways) :] + list(ways)[: number % len(ways)]
        for name in order:
            wait_quiet(asked.quiet_s)
            took[name].append(load((*words, str(passes)), ways[name], asked.workers))
    ratio = median(d.wall_s / k.wall_s for d, k in zip(took["default"], took["kboot"]))
    figures |= {f"{name}_{what}": value for name, runs in took.items() for what, value in told(runs).items()}
    figures |= {
        "workers": asked.workers,
        "cpus": len(os.sched_getaffinity(0)),
        "share_threads": placement.threads,
        "pinned": "yes"
        if len({w.cpus for w in placement.workers}) == asked.workers
        else "no, fewer cores than workers",
        "rounds": asked.rounds,
    }
    return Document("pin", {"default_over_kboot": ratio}, figures)


def told(runs: Sequence[Took]) -> dict[str, Value]:
    """Return the medians of one way."""
    return {
        "wall_s": median(t.wall_s for t in runs),
        "cpu_s": median(t.cpu_s for t in runs),
        "context_switches": int(median(t.switches for t in runs)),
        "forced_context_switches": int(median(t.forced for t in runs)),
    }


def build(work: Path) -> tuple[Path | None, str]:
    """Build the worker; return its path, or None and why not."""
    compiler = shutil.which("gcc")
    if compiler is None:
        return None, "gcc not installed"
    target = work / "loader"
    words = [compiler, "-O2", "-fopenmp", "-Wall", "-o", str(target), str(SOURCE)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)
    return (target, "") if done.returncode == 0 else (None, f"gcc does not build OpenMP: {done.stderr.strip()[-200:]}")


def checkpoint(work: Path, loader: Path) -> tuple[str, ...]:
    """Write a safetensors file of int8 tensors; return the worker's command line but for the passes."""
    path = work / "model.safetensors"
    entries = {
        f"layers.{n}.weight": {
            "dtype": "I8",
            "shape": [1024, TENSOR_BYTES // 1024],
            "data_offsets": [n * TENSOR_BYTES, (n + 1) * TENSOR_BYTES],
        }
        for n in range(TENSORS)
    }
    header = json.dumps(entries).encode()
    with path.open("wb") as file:
        file.write(len(header).to_bytes(8, "little") + header)
        for _ in range(TENSORS):
            file.write(os.urandom(TENSOR_BYTES))
    return (str(loader), str(path), str(8 + len(header)), str(TENSOR_BYTES), str(TENSORS))


def alone_s(words: Sequence[str]) -> float:
    """Return the seconds of one pass by one worker with one thread, its file in the page cache."""
    one = Way((), {"OMP_NUM_THREADS": "1"})
    load((*words, "1"), one, 1)
    return load((*words, "1"), one, 1).wall_s


def kboots_way(placement: CpuPlacement) -> Way:
    """Return what kboot sets before exec: threads, wait policy and CPUs."""
    env = {s.name: s.value for s in thread_settings(placement)}
    return Way(tuple(w.cpus for w in placement.workers), env)


def load(words: Sequence[str], way: Way, workers: int) -> Took:
    """Start all workers at once and wait for the last.

    Raises:
        RuntimeError: one failed, or they take too long.
    """
    kept = {k: v for k, v in os.environ.items() if not k.startswith(SHARED) and k not in UNSET}
    env = {**kept, **way.env}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    started = time.monotonic()
    children = [
        subprocess.Popen(on(words, way.cpus[n] if way.cpus else ()), env=env, stdout=subprocess.DEVNULL)
        for n in range(workers)
    ]
    try:
        failed = [child.wait(max(0.1, started + TIMEOUT_S - time.monotonic())) for child in children]
    except subprocess.TimeoutExpired:
        raise RuntimeError(f"{workers} workers are not done after {TIMEOUT_S:g} s") from None
    finally:
        for child in children:
            child.kill()
            child.wait()
    wall_s, after = time.monotonic() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    if any(failed):
        raise RuntimeError(f"a worker ended with status {max(failed, key=abs)}")
    forced = after.ru_nivcsw - before.ru_nivcsw
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Took(wall_s, cpu_s, forced + after.ru_nvcsw - before.ru_nvcsw, forced)


def on(words: Sequence[str], cpus: Sequence[int]) -> list[str]:
    """Return the command line that runs on these CPUs, bound before exec; taskset is in every Linux."""
    return ["taskset", "-c", ",".join(map(str, cpus)), *words] if cpus else list(words)


def plan_ms() -> float:
    """Return the median milliseconds that planning a node of 256 CPUs and 8 GPUs takes."""
    node = large_node()
    took = []
    for _ in range(PLANS):
        started = time.perf_counter()
        place(node, 8, CpuAsk())
        took.append((time.perf_counter() - started) * 1000)
    return median(took)


def this_node() -> NodeFacts:
    """Return this machine's CPUs, without GPUs."""
    host = RealHost()
    numa, _ = collect_numa(host)
    cpu, _ = collect_cpu(host, numa)
    return replace(large_node(), cpu=cpu, numa=numa, gpu=GpuFacts("no-library", "", None, None, (), ()))


def large_node() -> NodeFacts:
    """Return two sockets of 64 cores with SMT and four GPUs each."""
    online = tuple(range(256))
    node_of = {cpu: cpu % 128 // 64 for cpu in online}
    cpus = [tuple(cpu for cpu in online if node_of[cpu] == node) for node in (0, 1)]
    gpus = tuple(
        Gpu(n, "NVIDIA B300", f"GPU-{n}", f"0000:{n + 1:02x}:00.0", 1 << 38, 0, (10, 3), n // 4, cpus[n // 4],
            False, False, ())
        for n in range(8)
    )  # fmt: skip
    return NodeFacts(
        collected_unix_s=0.0,
        os=OsFacts("node-1", "", "", "x86_64", "", 0.0, None, 0),
        cpu=CpuFacts("", online, online, (), None, {cpu: (node_of[cpu], cpu % 128) for cpu in online}, node_of, {}),
        numa=tuple(NumaNode(n, cpus[n], 1 << 40, 1 << 40, {}) for n in (0, 1)),
        memory=MemoryFacts(1 << 41, 1 << 41, None, 0, 0, None, None),
        gpu=GpuFacts("ok", "", "", "", gpus, ()),
        mounts=(),
        limits=LimitFacts((0, 0), (0, 0)),
        engine=EngineFacts("", None, None, {}),
        caches=CacheFacts({}, frozenset()),
        tune=TuneFacts({}),
    )
