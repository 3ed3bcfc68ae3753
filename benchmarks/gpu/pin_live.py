#!/usr/bin/env python3
"""Pin live workers on this node and prove it: one process for each GPU, found by NVML, every thread kept to its CPUs.

    python benchmarks/gpu/pin_live.py --out results [--threads 24]

Each process takes a CUDA context on its own GPU (through libcuda, no framework), starts threads, and calls itself what
vLLM calls its workers. kboot finds them, pins them, and each mask is read back. Where there is no GPU the processes are
told apart by their titles. Run it with a Python that has kboot. Results: `pins.json`, and `node.tar.gz`, a tree that
`kboot facts --root` reads. Neither holds a UUID or a host name of the machine.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from kboot.apply.pin_watch import PinWatch
from kboot.demo.proc import set_title
from kboot.engines.vllm import WORKER_TITLES
from kboot.events import Event, Notice
from kboot.facts.collect import collect
from kboot.facts.process import Tree
from kboot.facts.render import facts_to_json
from kboot.facts.types import NodeFacts
from kboot.handoff import WorkerPlan
from kboot.host.paths import find_paths
from kboot.host.real import RealHost
from kboot.host.record import Recorder
from kboot.plan.placement import place
from kboot.profile.types import CpuAsk
from kboot.report.render_json import workers_json

UUID = re.compile(r"(GPU|MIG)-[0-9a-f]{8}-[0-9a-f-]{27}")
NAMELESS = "node-1"
STOP_S = 60.0


def be_worker(index: int, gpu: int, threads: int) -> None:
    """Be one worker until stdin ends: a context on the GPU, and threads that wait."""
    said = take_context(gpu) if gpu >= 0 else "no GPU"
    set_title(f"VLLM::Worker_DP{index}_EP{index}")
    for _ in range(threads - 1):
        threading.Thread(target=threading.Event().wait, daemon=True).start()
    print(said, flush=True)
    sys.stdin.read()


def take_context(gpu: int) -> str:
    """Take the primary context of a GPU; return what came of it."""
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
    except OSError as exc:
        return f"no driver library: {exc}"
    device, context = ctypes.c_int(), ctypes.c_void_p()
    for name, *arguments in (
        ("cuInit", 0),
        ("cuDeviceGet", ctypes.byref(device), gpu),
        ("cuDevicePrimaryCtxRetain", ctypes.byref(context), device),
    ):
        status = getattr(cuda, name)(*arguments)
        if status:
            return f"{name}: CUDA error {status}"
    return "context"


def start_workers(gpus: list[int], threads: int) -> list[subprocess.Popen[str]]:
    """Start the workers in one session of their own."""
    env = {**os.environ, "CUDA_DEVICE_ORDER": "PCI_BUS_ID", "OMP_NUM_THREADS": "1"}
    return [
        subprocess.Popen(
            [sys.executable, __file__, "--worker", f"{index}:{gpu}:{threads}"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=env,
        )
        for index, gpu in enumerate(gpus)
    ]


def pin(facts: NodeFacts, threads: int) -> dict[str, Any]:
    """Start workers, pin them, and return what was planned, done and found."""
    gpus = [gpu.index for gpu in facts.gpu.gpus] or [-1, -1]
    placement = place(facts, len(gpus), CpuAsk())
    plans = [WorkerPlan(w.worker, w.gpu, w.cpus, 1, w.memory_node) for w in placement.workers]
    workers = start_workers(gpus, threads)
    try:
        contexts = [worker.stdout.readline().strip() for worker in workers if worker.stdout]
        before = [sorted(os.sched_getaffinity(worker.pid)) for worker in workers]
        seen: list[Event] = []
        watch = PinWatch(plans, WORKER_TITLES, {"OMP_NUM_THREADS": "1"}, RealHost(), seen.append)
        watch.begin(Tree(os.getpid()))
        started = time.monotonic()
        checks = watch.settle({})
        took_s = time.monotonic() - started
        masks = [
            sorted({tuple(sorted(os.sched_getaffinity(int(t)))) for t in os.listdir(f"/proc/{w.pid}/task")})
            for w in workers
        ]
    finally:
        for worker in workers:
            if worker.stdin:
                worker.stdin.close()
            worker.wait(STOP_S)
    return {
        "contexts": contexts,
        "cpus_before": [len(mask) for mask in before],
        "notes": list(placement.notes),
        "right_process": [check.pid == worker.pid for check, worker in zip(checks, workers, strict=True)],
        "as_planned": [
            all(set(mask) <= set(share.cpus) for mask in found)
            for found, share in zip(masks, placement.workers, strict=True)
        ],
        "told": [event.text for event in seen if isinstance(event, Notice)],
        "seconds": round(took_s, 3),
        "workers": workers_json(checks),
    }


def record(out: Path) -> NodeFacts:
    """Write the node's tree, without what names it, and return its facts."""
    recorder = Recorder(RealHost())
    facts = collect(recorder, find_paths(None, dict(os.environ), os.geteuid()))
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "node"
        recorder.save(tree)
        for path in tree.rglob("*"):
            if path.is_file() and not path.is_symlink():
                path.write_text(unnamed(path.read_text(errors="replace")))
        (tree / "etc/hostname").write_text(f"{NAMELESS}\n")
        with tarfile.open(out / "node.tar.gz", "w:gz") as archive:
            archive.add(tree, "node")
    return replace(facts, os=replace(facts.os, hostname=NAMELESS))


def unnamed(text: str) -> str:
    """Return a text without UUIDs of GPUs."""
    return UUID.sub(lambda found: f"{found[1]}-00000000-0000-4000-8000-000000000000", text)


def main(argv: list[str]) -> int:
    """Return 0 when every worker was the right process and is on its CPUs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("results"), help="folder for pins.json and node.tar.gz")
    parser.add_argument("--threads", type=int, default=24, help="threads of each worker (default 24)")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    asked = parser.parse_args(argv)
    if asked.worker:
        be_worker(*(int(number) for number in asked.worker.split(":")))
        return 0
    asked.out.mkdir(parents=True, exist_ok=True)
    facts = record(asked.out)
    result = {**pin(facts, asked.threads), "facts": facts_to_json(facts)}
    text = unnamed(json.dumps(result, indent=1, sort_keys=True))
    (asked.out / "pins.json").write_text(f"{text}\n")
    shown = {key: result[key] for key in ("contexts", "right_process", "as_planned", "seconds", "told")}
    print(json.dumps(shown, indent=1))
    return 0 if all(result["right_process"]) and all(result["as_planned"]) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
