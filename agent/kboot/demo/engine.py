"""A serving engine for machines without GPUs: vLLM's processes, log lines, cache and endpoints, and a toy for a model.

    python -m kboot.demo.engine serve MODEL [--host H] [--port P] [--data-parallel-size N] [--enable-expert-parallel]

One worker process per simulated GPU really reads its part of the checkpoint; a model that lacks a shard, or has a
damaged one, fails as it fails in vLLM. Uses the standard library only.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import socket
import sys
import threading
import time
from dataclasses import dataclass, field
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

from kboot.addresses import host_port
from kboot.demo import proc
from kboot.demo.rank import VERSION, Asked, continuation, core, fork
from kboot.demo.weights import Part

_SIGNALS = {signal.SIGTERM, signal.SIGINT, signal.SIGCHLD}
_STOP_S = 1.5
_MAX_TOKENS = 4096


class Stopped(Exception):
    """SIGTERM or SIGINT came."""


@dataclass(slots=True)
class State:
    """What the endpoints answer from."""

    asked: Asked
    checksum: int
    vocabulary: tuple[str, ...]
    started_unix_s: int
    healthy: bool = True
    served: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    state: ClassVar[State]

    def do_GET(self) -> None:
        state = self.state
        match self.path.partition("?")[0]:
            case "/health" | "/ping":
                self._send(200 if state.healthy else 503, b"")
            case "/version":
                self._send_json(200, {"version": VERSION})
            case "/v1/models":
                card = {"id": state.asked.name, "object": "model", "owned_by": "vllm", "created": state.started_unix_s}
                self._send_json(200, {"object": "list", "data": [{**card, "root": str(state.asked.model)}]})
            case "/metrics":
                name = f'model_name="{state.asked.name}"'
                text = f"vllm:num_requests_running{{{name}}} 0\nvllm:request_success_total{{{name}}} {state.served}\n"
                self._send(200, text.encode(), "text/plain; version=0.0.4")
            case _:
                self._send_json(404, {"detail": "Not Found"})

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.path.partition("?")[0] != "/v1/completions":
            self._send_json(404, {"detail": "Not Found"})
            return
        try:
            asked = json.loads(body)
            model, prompt = asked["model"], asked["prompt"]
            tokens = int(asked.get("max_tokens") or 16)
        except (ValueError, KeyError, TypeError, AttributeError) as exc:
            self._refuse(400, "BadRequestError", f"not a completion request: {exc!r}")
            return
        if model != self.state.asked.name:
            self._refuse(404, "NotFoundError", f"The model `{model}` does not exist.")
        elif not isinstance(prompt, str) or not 1 <= tokens <= _MAX_TOKENS:
            self._refuse(400, "BadRequestError", f"prompt must be text, max_tokens 1 to {_MAX_TOKENS}")
        else:
            self._complete(prompt, tokens)

    def _complete(self, prompt: str, tokens: int) -> None:
        state = self.state
        text = continuation(state.checksum, prompt, tokens, state.vocabulary)
        with state.lock:
            state.served += 1
            number = state.served
        choice = {"index": 0, "text": text, "finish_reason": "length"}
        asked = len(prompt.split())
        usage = {"prompt_tokens": asked, "completion_tokens": tokens, "total_tokens": asked + tokens}
        head = {"id": f"cmpl-{number}", "object": "text_completion", "created": int(time.time())}
        self._send_json(200, {**head, "model": state.asked.name, "choices": [choice], "usage": usage})

    def _refuse(self, status: int, kind: str, message: str) -> None:
        self._send_json(status, {"error": {"message": message, "type": kind, "param": None, "code": status}})

    def _send_json(self, status: int, document: object) -> None:
        self._send(status, json.dumps(document).encode(), "application/json")

    def _send(self, status: int, body: bytes, kind: str = "text/plain") -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002, ARG002
        proc.plain(f'INFO:     {self.client_address[0]}:{self.client_address[1]} - "{self.requestline}" {args[-2]}')


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, asked: Asked) -> None:
        self.address_family = socket.AF_INET6 if ":" in asked.host else socket.AF_INET
        super().__init__((asked.host, asked.port), _Handler, bind_and_activate=False)
        self.server_bind()  # early, as vLLM does; it listens only once the model is loaded


def serve(asked: Asked) -> int:
    """Load the model in all ranks, then answer until SIGTERM; return the exit status."""
    proc.adopt_orphans()
    signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    words = {"model": str(asked.model), "port": asked.port, "data_parallel_size": asked.ranks}
    proc.log("", "api_utils.py:273", f"non-default args: {words}")
    cores: dict[int, str] = {}
    try:
        server = _Server(asked)
        vocabulary = _vocabulary(asked.model)
        readers = {}
        for rank in range(asked.ranks):
            pid, reader = fork(partial(core, asked, rank), f"VLLM::EngineCore_DP{rank}")
            cores[pid], readers[pid] = f"EngineCore_DP{rank}", reader
        parts = _wait_for(cores, readers)
        state = State(asked, _whole(parts, spread=asked.spread), vocabulary, int(time.time()))
        return _answer(server, state, cores)
    except Stopped:
        proc.log("", "launcher.py:110", "[shutdown] stopped while starting")
        return 0
    except (OSError, ValueError, RuntimeError) as exc:
        for line in ("Traceback (most recent call last):", f"{type(exc).__name__}: {exc}"):
            print(line, file=sys.stderr, flush=True)
        return 1
    finally:
        _end(cores)


def _vocabulary(model: Path) -> tuple[str, ...]:
    json.loads((model / "config.json").read_text())  # absent or damaged: no model here
    tokenizer = model / "tokenizer.json"
    vocabulary = json.loads(tokenizer.read_text())["model"]["vocab"] if tokenizer.exists() else {}
    return tuple(word for word in vocabulary if word.isalpha()) or ("a",)


def _wait_for(cores: dict[int, str], readers: dict[int, int]) -> list[Part]:
    """Collect what every core loaded."""
    parts: dict[int, Part] = {}
    for reader in readers.values():
        os.set_blocking(reader, False)
    while len(parts) < len(cores):
        _check_signals(0.02)
        for pid in [p for p in readers if p not in parts]:
            try:
                line = os.read(readers[pid], 4096)
            except BlockingIOError:
                continue
            if not line:
                failed = {cores[pid]: 1}
                raise RuntimeError(
                    f"Engine core initialization failed. See root cause above. Failed core proc(s): {failed}"
                )
            parts[pid] = Part(**json.loads(line))
    return list(parts.values())


def _whole(parts: list[Part], *, spread: bool) -> int:
    """Return one checksum of the model, whatever the number of ranks."""
    if len({p.dense for p in parts}) != 1:
        raise RuntimeError("ranks disagree on the tensors that all of them hold")
    checksum = parts[0].dense
    for part in parts if spread else parts[:1]:
        checksum ^= part.experts
    return checksum


def _answer(server: _Server, state: State, cores: dict[int, str]) -> int:
    _Handler.state = state
    server.server_activate()
    address = host_port(state.asked.host, server.server_port)
    proc.log("", "entry.py:139", f"Starting vLLM server on http://{address}")
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True).start()
    proc.plain(f"INFO:     Started server process [{os.getpid()}]")
    proc.plain("INFO:     Application startup complete.")
    try:
        while True:
            _check_signals(1.0)
            dead = _reap(cores)
            if dead:
                state.healthy = False
                proc.log("", "launcher.py:130", f"EngineDeadError: {', '.join(dead)} died", "ERROR")
                time.sleep(0.5)  # a probe that comes now is told 503
                return 1
    except Stopped:
        proc.log("", "launcher.py:110", "[shutdown] SIGTERM received, stopping")
        server.shutdown()
        return 0
    finally:
        server.server_close()


def _check_signals(timeout_s: float) -> None:
    found = signal.sigtimedwait(_SIGNALS, timeout_s)
    if found is not None and found.si_signo != signal.SIGCHLD:
        raise Stopped


def _reap(cores: dict[int, str]) -> list[str]:
    """Return the names of cores that have ended, and forget them."""
    ended: list[str] = []
    while True:
        try:
            pid, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return ended
        if not pid:
            return ended
        if pid in cores:
            ended.append(cores.pop(pid))


def _end(cores: dict[int, str]) -> None:
    """End the cores, and by them the workers, which come to this process when their core is gone."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        for pid in _children(cores):
            os.kill(pid, number)
        deadline_s = time.monotonic() + _STOP_S
        while _children(cores) and time.monotonic() < deadline_s:
            _reap(cores)
            time.sleep(0.02)


def _children(cores: dict[int, str]) -> list[int]:
    try:
        with open(f"/proc/self/task/{os.getpid()}/children") as file:
            return [int(pid) for pid in file.read().split()]
    except OSError:  # a kernel without that file
        return list(cores)


def _cpus(text: str) -> frozenset[int]:
    """Read the kernel's list form: 0-3,8."""
    cpus: set[int] = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        cpus.update(range(int(first), int(last or first) + 1))
    return frozenset(cpus)


def main(argv: list[str] | None = None) -> int:
    """Read the command line and serve."""
    parser = argparse.ArgumentParser(prog="python -m kboot.demo.engine", description=__doc__.splitlines()[0])
    parser.add_argument("command", choices=["serve"])
    parser.add_argument("model", type=Path)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--served-model-name")
    parser.add_argument("--data-parallel-size", type=int, default=1)
    parser.add_argument("--enable-expert-parallel", action="store_true")
    parser.add_argument("--numa-bind-cpus", type=_cpus, nargs="*", default=[], help="one CPU list per rank")
    parser.add_argument("--max-model-len", type=int, default=4096)
    asked = parser.parse_args(argv)
    if asked.numa_bind_cpus and len(asked.numa_bind_cpus) != asked.data_parallel_size:
        parser.error("--numa-bind-cpus needs one list for each rank")
    return serve(
        Asked(
            model=asked.model,
            host=asked.host,
            port=asked.port,
            name=asked.served_model_name or str(asked.model),
            ranks=asked.data_parallel_size,
            spread=asked.enable_expert_parallel,
            cpus=tuple(asked.numa_bind_cpus),
        )
    )


if __name__ == "__main__":
    sys.exit(main())
