"""How does a boot go? Starts one command and watches it from outside, in the same way whoever starts the engine."""

from __future__ import annotations

import json
import os
import subprocess
import threading
import time
import urllib.request
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from gpubench.node import Gpus, Tree, title
from kboot.cpulist import format_cpu_list
from kboot.engines import engine
from kboot.engines.logs import EngineSpan, LogReader, is_progress_bar, parse

_LOOK_S = 0.05
_SAMPLE_S = 1.0
_ASK_S = 0.1


@dataclass(frozen=True, slots=True)
class Command:
    """What is started and where it is looked at.

    log: what the engine writes; where it is the command's own output, `own_log`. group: stop it by its process group.
    until: "ready", or the name of a phase of the engine after whose end on all `ranks` the boot is stopped.
    """

    argv: tuple[str, ...]
    env: Mapping[str, str]
    log: Path
    url: str
    model: str
    engine: str = "vllm"
    own_log: bool = True
    until: str = "ready"
    ranks: int = 2


@dataclass
class Seen:
    """What was seen of one boot. lines: when each line of the engine's log was read, and the line."""

    started_unix_s: float
    lines: list[tuple[float, str]] = field(default_factory=list)
    most_threads: dict[str, int] = field(default_factory=dict)
    engine_started_unix_s: float | None = None
    ready_unix_s: float | None = None
    answer_s: float | None = None
    answer: str = ""
    why: str = ""
    cpu_s: float = 0.0
    live: list[dict[str, Any]] = field(default_factory=list)
    gpu_pids: dict[int, list[int]] = field(default_factory=dict)
    serving: dict[str, Any] = field(default_factory=dict)
    stopped: dict[str, Any] = field(default_factory=dict)


def watch(command: Command, out: Path, limit_s: float, serve_s: float, gpus: Gpus) -> Seen:
    """Run the command until its end condition or limit_s, look at it while it serves, and stop it; nothing is left."""
    command.log.parent.mkdir(parents=True, exist_ok=True)
    offset = command.log.stat().st_size if command.log.exists() else 0
    with out.open("wb") as own, (command.log if command.own_log else out.with_suffix(".err")).open("ab") as errors:
        seen = Seen(time.time())
        child = subprocess.Popen(
            command.argv,
            env=dict(command.env),
            stdin=subprocess.DEVNULL,
            stdout=errors if command.own_log else own,
            stderr=errors,
            start_new_session=True,
        )
    tree, done = Tree(child.pid), threading.Event()
    threads = [
        threading.Thread(target=_follow, args=(command.log, offset, seen, done), daemon=True),
        threading.Thread(target=_sample, args=(tree, seen, done, command), daemon=True),
    ]
    for thread in threads:
        thread.start()
    try:
        if _until(command, child, seen, limit_s) and command.until == "ready":
            _look_at_serving(command, child, tree, seen, serve_s, gpus)
    finally:
        seen.cpu_s = max(seen.cpu_s, _cpu_s(tree.look()))
        seen.stopped = tree.stop(child, 30.0, group=command.own_log)
        done.set()
        for thread in threads:
            thread.join(10)
        seen.stopped["gpu_memory_freed"] = gpus.wait_free(20.0)
    return seen


def _until(command: Command, child: subprocess.Popen[bytes], seen: Seen, limit_s: float) -> bool:
    while time.time() - seen.started_unix_s < limit_s:
        if child.poll() is not None:
            seen.why = f"ended with status {child.returncode} before it was ready"
            return False
        if command.until == "ready":
            if _healthy(f"{command.url}/health"):
                seen.ready_unix_s = time.time()
                return True
        elif _phase_ended(command, seen):
            return True
        time.sleep(_ASK_S)
    seen.why = f"not ready after {limit_s:.0f} s"
    return False


def _phase_ended(command: Command, seen: Seen) -> bool:
    """Return whether every rank has said the words that end the phase."""
    import re

    ends = next(p.ends for p in engine(command.engine).phases if p.name == command.until)
    said = {parse(line).process for _, line in list(seen.lines) if re.search(ends, parse(line).text)}
    return len(said) >= command.ranks


def _healthy(url: str) -> bool:
    with suppress(OSError, ValueError), urllib.request.urlopen(url, timeout=2) as answer:
        return bool(answer.status == 200)
    return False


def _look_at_serving(
    command: Command, child: subprocess.Popen[bytes], tree: Tree, seen: Seen, serve_s: float, gpus: Gpus
) -> None:
    started = time.monotonic()
    try:
        seen.answer = _complete(command)
        seen.answer_s = time.monotonic() - started
    except OSError as exc:
        seen.answer = repr(exc)
    tree.look()
    seen.gpu_pids = gpus.pids()
    seen.live = [row for p in tree.alive() if (row := _row(p, seen.gpu_pids)) is not None]
    if command.own_log:
        return
    agent = psutil.Process(child.pid)
    with suppress(psutil.Error):
        before, began = agent.cpu_times(), time.monotonic()
        time.sleep(serve_s)
        after, took_s = agent.cpu_times(), time.monotonic() - began
        used_s = after.user + after.system - before.user - before.system
        seen.serving = {
            "seconds": round(took_s, 1),
            "agent_cpu_s": round(used_s, 3),
            "agent_cpu_percent_of_one": round(100 * used_s / took_s, 2),
            "agent_rss_mib": agent.memory_info().rss >> 20,
            "agent_cpus": format_cpu_list(agent.cpu_affinity()),
            "agent_cpu_s_until_ready": round(before.user + before.system, 2),
        }


def _complete(command: Command) -> str:
    """Ask for four tokens by token ids, for which no tokenizer is needed (the demo engine knows words only)."""
    asked: dict[str, Any] = {"model": command.model, "max_tokens": 4, "temperature": 0}
    asked |= {"prompt": "to warm"} if command.engine == "demo" else {"prompt": [5, 6, 7, 8], "detokenize": False}
    request = urllib.request.Request(
        f"{command.url}/v1/completions", json.dumps(asked).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=60) as answer:
        return str(answer.read(400).decode(errors="replace"))


def _follow(log: Path, offset: int, seen: Seen, done: threading.Event) -> None:
    """Take the lines as they are written; a progress bar's states are lines too."""
    partial = b""
    last = False
    while True:
        data = b""
        with suppress(FileNotFoundError), log.open("rb") as file:
            file.seek(offset)
            data = file.read(1 << 20)
        now = time.time()
        offset += len(data)
        *lines, partial = (partial + data.replace(b"\r", b"\n")).split(b"\n")
        seen.lines += [(now, line.decode(errors="replace")) for line in lines if line.strip()]
        if last and not data:
            return
        if not data:
            last = done.is_set()
            time.sleep(_LOOK_S)


def _sample(tree: Tree, seen: Seen, done: threading.Event, command: Command) -> None:
    while not done.wait(_SAMPLE_S if seen.engine_started_unix_s or command.own_log else _LOOK_S):
        processes = tree.look()
        seen.cpu_s = max(seen.cpu_s, _cpu_s(processes))
        for process in processes:
            with suppress(psutil.Error):
                name = title(process)
                seen.most_threads[name] = max(seen.most_threads.get(name, 0), process.num_threads())
                if seen.engine_started_unix_s is None and _is_engine(name, command):
                    seen.engine_started_unix_s = time.time()


def _is_engine(name: str, command: Command) -> bool:
    wanted = "kboot.demo.engine" if command.engine == "demo" else "vllm.entrypoints.cli.main"
    return wanted in name


def _cpu_s(processes: Sequence[psutil.Process]) -> float:
    total = 0.0
    for process in processes:
        with suppress(psutil.Error):
            times = process.cpu_times()
            total += times.user + times.system
    return total


def _row(process: psutil.Process, gpu_pids: Mapping[int, Sequence[int]]) -> dict[str, Any] | None:
    """Return what a process has: threads, the CPUs of each of them, its share."""
    try:
        env = process.environ()
        return {
            "title": title(process),
            "pid": process.pid,
            "gpu": next((n for n, pids in gpu_pids.items() if process.pid in pids), None),
            "threads": process.num_threads(),
            "cpus": format_cpu_list(process.cpu_affinity()),
            "cpus_of_threads": _masks(process.pid),
            "omp_num_threads": env.get("OMP_NUM_THREADS"),
            "cpu_s": round(sum(process.cpu_times()[:2]), 1),
            "rss_mib": process.memory_info().rss >> 20,
        }
    except (psutil.Error, OSError):
        return None


def _masks(pid: int) -> dict[str, int]:
    """Return how many threads may run on which CPUs."""
    found: dict[str, int] = {}
    for tid in os.listdir(f"/proc/{pid}/task"):
        with suppress(OSError):
            cpus = format_cpu_list(os.sched_getaffinity(int(tid)))
            found[cpus] = found.get(cpus, 0) + 1
    return found


def engine_spans(seen: Seen, name: str, started_unix_s: float) -> tuple[tuple[EngineSpan, ...], LogReader]:
    """Read the log as kboot does; return the phases of the engine's boot and the reader."""
    reader = LogReader(engine(name), started_unix_s)  # type: ignore[arg-type]
    for moment, line in seen.lines:
        reader.feed(moment, line)
    return reader.spans(), reader


def stamped(seen: Seen) -> str:
    """Return the log with seconds since the start of the command before each line, progress bars left out."""
    return "".join(
        f"{moment - seen.started_unix_s:8.2f} {line}\n" for moment, line in seen.lines if not is_progress_bar(line)
    )
