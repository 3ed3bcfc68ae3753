"""What does one rank of the demo engine do: an engine core and its worker, from start to serving?"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NoReturn

from kboot.demo import proc, weights

VERSION = "0.26.0+demo"  # the vLLM whose log lines these are

_COMPILE_ROUNDS = 150_000  # about a tenth of a second of one core
_GRAPH_SIZES = (1, 2, 4, 8, 16, 32)


@dataclass(frozen=True, slots=True)
class Asked:
    """What the engine was asked on its command line. cpus: one set per rank, empty where not pinned."""

    model: Path
    host: str
    port: int
    name: str
    ranks: int
    spread: bool
    cpus: tuple[frozenset[int], ...]


def fork(work: Callable[[int], NoReturn], name: str) -> tuple[int, int]:
    """Start a child; return its pid and the read end of the pipe whose write end it was given."""
    parent = os.getpid()
    reader, writer = os.pipe()
    pid = os.fork()
    if pid:
        os.close(writer)
        return pid, reader
    status = 1
    try:
        os.close(reader)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD):
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        proc.die_with_parent(parent)
        proc.set_title(name)
        work(writer)
    except SystemExit as exc:
        status = int(exc.code or 0)
    except BaseException:
        traceback.print_exc()
        raise
    finally:
        os._exit(status)


def core(asked: Asked, rank: int, writer: int) -> NoReturn:
    """Run one engine core: start its worker, tell the front end what it loaded, watch it."""
    title = f"EngineCore_DP{rank}"
    started_s = time.monotonic()
    proc.log(title, "core.py:116", f"Initializing a V1 LLM engine (v{VERSION}) with config: model='{asked.model}'")
    proc.log(title, "multiproc_executor.py:140", "DP group leader: node_rank=0, world_size=1, local_world_size=1")
    pid, reader = fork(lambda out: worker(asked, rank, out), "VLLM::Worker")
    with os.fdopen(reader, "rb") as pipe:
        line = pipe.readline()
    if not line:
        _, status = os.waitpid(pid, 0)
        try:
            raise RuntimeError("WorkerProc initialization failed due to an exception in a background process.")
        except RuntimeError:
            proc.log_failure(title, "core.py:1330", "EngineCore failed to start.")
        sys.exit(1)
    proc.log(title, "kv_cache_utils.py:2177", "GPU KV cache size: 65,536 tokens")
    took_s = time.monotonic() - started_s
    proc.log(title, "core.py:320", f"init engine (profile, create kv cache, warmup model) took {took_s:.2f} s")
    os.write(writer, line)
    _, status = os.waitpid(pid, 0)
    code = os.waitstatus_to_exitcode(status)
    text = f"Worker proc VllmWorker-0 died unexpectedly (exit code: {code})"
    proc.log(title, "multiproc_executor.py:381", text, "ERROR")
    sys.exit(1)


def worker(asked: Asked, rank: int, writer: int) -> NoReturn:
    """Run one worker: load its part, compile, profile, capture; then wait for the end."""
    title = f"Worker_DP{rank}_EP{rank}" if asked.spread else f"Worker_DP{rank}"
    try:
        part = _load(asked, rank, title)
        _compile(asked, rank, title, part.dense)
        _profile(title, part.dense)
    except (OSError, ValueError, KeyError, weights.SafetensorError):
        proc.log_failure(title, "multiproc_executor.py:901", "WorkerProc failed to start.")
        sys.exit(1)
    os.write(writer, json.dumps(asdict(part)).encode() + b"\n")
    while True:
        signal.pause()


def _load(asked: Asked, rank: int, title: str) -> weights.Part:
    ranks = asked.ranks
    if asked.cpus:
        os.sched_setaffinity(0, asked.cpus[rank])
    where = f"world_size={ranks} rank={rank} local_rank={rank} distributed_init_method=tcp://127.0.0.1:0 backend=demo"
    proc.log("Worker", "parallel_state.py:1615", where)
    assigned = f"DP rank {rank}, PP rank 0, PCP rank 0, TP rank 0, EP rank {rank if asked.spread else 'N/A'}"
    proc.log("Worker", "parallel_state.py:1946", f"rank {rank} in world size {ranks} is assigned as {assigned}")
    proc.set_title(f"VLLM::{title}")
    proc.log(title, "gpu_model_runner.py:5250", f"Starting to load model {asked.model}...")
    threads = int(os.environ.get("OMP_NUM_THREADS") or len(os.sched_getaffinity(0)))
    started_s = time.monotonic()
    part = weights.read(asked.model, rank, ranks, asked.spread, threads, _progress if rank == 0 else _silent)
    took_s = time.monotonic() - started_s
    proc.log(title, "default_loader.py:430", f"Loading weights took {took_s:.2f} seconds")
    size = f"{part.size_bytes / (1 << 30):.2f} GiB memory and {took_s:.6f} seconds"
    proc.log(title, "gpu_model_runner.py:5347", f"Model loading took {size}")
    text = f"Reducing Torch parallelism from {threads} threads to 1 to avoid unnecessary CPU contention."
    proc.log(title, "multiproc_executor.py:1070", text)
    return part


def _progress(done: int, total: int) -> None:
    if done in {0, total} or done * 4 // total != (done - 1) * 4 // total:
        words = f"{100 * done // total:3d}% Completed | {done}/{total}"
        proc.bar(f"Loading safetensors checkpoint shards: {words} [00:00<00:00, 99.00it/s]", last=done == total)


def _silent(_done: int, _total: int) -> None:
    pass


def _compile(asked: Asked, rank: int, title: str, dense: int) -> None:
    """Work for a while once, and keep the result where a later start with the same inputs finds it."""
    inputs = f"{VERSION} {asked.model} {asked.ranks} {asked.spread} {dense}".encode()
    key = hashlib.sha256(inputs).hexdigest()[:10]
    root = Path(os.environ.get("VLLM_CACHE_ROOT") or Path.home() / ".cache" / "vllm")
    folder = root / "torch_compile_cache" / key / f"rank_{rank}_0"
    entry = folder / "model"
    proc.log(title, "backends.py:1094", f"Using cache directory: {folder} for vLLM's torch.compile")
    started_s = time.monotonic()
    stamp = hashlib.sha256(inputs).digest()
    if _kept(entry, stamp):
        took = f"took {time.monotonic() - started_s:.3f} s"
        text = f"Directly load the compiled graph(s) for compile range (1, 8192) from the cache, {took}"
        proc.log(title, "backends.py:292", text)
        proc.log(title, "decorators.py:311", f"Directly load AOT compilation from path {entry}")
    else:
        graph = hashlib.pbkdf2_hmac("sha256", inputs, b"graph", _COMPILE_ROUNDS)
        took_s = time.monotonic() - started_s
        proc.log(title, "backends.py:393", f"Compiling a graph for compile range (1, 8192) takes {took_s:.2f} s")
        _keep(entry, stamp + graph)
        proc.log(title, "decorators.py:708", f"saved AOT compiled function to {entry}")
    proc.log(title, "monitor.py:53", f"torch.compile took {time.monotonic() - started_s:.2f} s in total")


def _kept(entry: Path, stamp: bytes) -> bool:
    try:
        data = entry.read_bytes()
    except OSError:
        return False
    return len(data) == 64 and data.startswith(stamp)


def _keep(entry: Path, data: bytes) -> None:
    entry.parent.mkdir(parents=True, exist_ok=True)
    temp = entry.with_name(f".model-{os.getpid()}")
    temp.write_bytes(data)
    temp.replace(entry)


def _profile(title: str, checksum: int) -> None:
    started_s = time.monotonic()
    continuation(checksum, "profile", 256, ("a",))
    proc.log(title, "monitor.py:81", f"Initial profiling/warmup run took {time.monotonic() - started_s:.2f} s")
    proc.log(title, "gpu_worker.py:560", "Available KV cache memory: 1.00 GiB")
    started_s = time.monotonic()
    for size in _GRAPH_SIZES:
        continuation(checksum, f"graph {size}", size, ("a",))
    took_s = time.monotonic() - started_s
    proc.log(title, "gpu_model_runner.py:5900", f"Graph capturing finished in {took_s:.0f} secs, took 0.01 GiB")


def continuation(checksum: int, prompt: str, tokens: int, vocabulary: Sequence[str]) -> str:
    """Return words that follow from the weights and the prompt alone."""
    state = hashlib.sha256(f"{checksum} {prompt}".encode()).digest()
    words = []
    for _ in range(tokens):
        state = hashlib.sha256(state).digest()
        words.append(vocabulary[int.from_bytes(state[:4], "big") % len(vocabulary)])
    return " " + " ".join(words)
