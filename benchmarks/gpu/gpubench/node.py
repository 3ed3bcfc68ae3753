"""What does a measurement read of the node, and set back between boots: page cache, bytecode, processes?"""

from __future__ import annotations

import json
import os
import platform
import signal
import subprocess
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

_DROP = Path("/proc/sys/vm/drop_caches")
_FREED_BYTES = 2 << 30
_PARKED = ".parked"


def drop_page_cache(folders: Iterable[Path], *, whole_node: bool) -> str:
    """Forget the clean pages of the whole node, which root can, or those of the folders' files; say which."""
    os.sync()
    if whole_node:
        _DROP.write_text("3\n")
        return "whole node"
    for folder in folders:
        for path in folder.rglob("*"):
            if path.is_file():
                fd = os.open(path, os.O_RDONLY)
                os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
                os.close(fd)
    return "the checkpoint's files"


class Bytecode:
    """Compiled Python files: those that were there at first are the image's, those that came later were made by a boot.

    A container that starts afresh has the image's only.
    """

    def __init__(self, roots: Iterable[Path], memory: Path) -> None:
        every = sorted(set(roots))
        self._roots = tuple(r for r in every if not any(other in r.parents for other in every))
        if not memory.exists():
            memory.write_text(json.dumps([str(p) for p in self._files(".pyc")]))
        self._first = set(json.loads(memory.read_text()))

    def remove(self) -> int:
        """Delete what boots have made; return how many files."""
        made = [*self._made(), *self._files(_PARKED)]
        for path in made:
            path.unlink()
        return len(made)

    def park(self) -> int:
        """Put aside what boots have made, so that no interpreter finds it."""
        made = self._made()
        for path in made:
            path.rename(f"{path}{_PARKED}")
        return len(made)

    def unpark(self) -> int:
        """Put back what was put aside."""
        parked = list(self._files(_PARKED))
        for path in parked:
            path.rename(str(path).removesuffix(_PARKED))
        return len(parked)

    def counts(self) -> dict[str, int]:
        """Return how many are the image's and how many were made since."""
        return {"image": len(self._first), "made": len(self._made())}

    def _made(self) -> list[Path]:
        return [path for path in self._files(".pyc") if str(path) not in self._first]

    def _files(self, suffix: str) -> Iterable[Path]:
        for root in self._roots:
            for folder, _, names in os.walk(root):
                if folder.endswith("__pycache__"):
                    yield from (Path(folder, name) for name in names if name.endswith(suffix))


_SETTLE_S = 5.0
"""What still runs so long after its command has ended was left by it."""


@dataclass
class Tree:
    """Every process a command has started, also those that lost their parent: kept from sample to sample."""

    root: int
    seen: dict[int, psutil.Process] = field(default_factory=dict)

    def look(self) -> list[psutil.Process]:
        """Return those alive now."""
        with suppress(psutil.Error):
            root = psutil.Process(self.root)
            for process in (root, *root.children(recursive=True)):
                self.seen.setdefault(process.pid, process)
        return self.alive()

    def alive(self) -> list[psutil.Process]:
        """Return those of the ones seen that still run."""
        found = []
        for process in self.seen.values():
            with suppress(psutil.Error):
                if process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
                    found.append(process)
        return found

    def stop(self, child: subprocess.Popen[bytes], timeout_s: float, *, group: bool) -> dict[str, Any]:
        """End the command as an operator would (group: as Ctrl-C in a shell reaches all), then what is left of it."""
        self.look()
        started = time.monotonic()
        with suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGTERM) if group else os.kill(child.pid, signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            child.wait(timeout_s)
        took_s = time.monotonic() - started
        settled_s = time.monotonic() + _SETTLE_S
        while self.alive() and time.monotonic() < settled_s:
            time.sleep(0.1)
        left = [self._title(p) for p in self.alive()]
        for process in self.alive():
            with suppress(psutil.Error):
                process.kill()
        with suppress(subprocess.TimeoutExpired):
            child.wait(5)
        return {"took_s": round(took_s, 2), "status": child.returncode, "left_running": len(left), "left": left[:8]}

    @staticmethod
    def _title(process: psutil.Process) -> str:
        with suppress(psutil.Error):
            return title(process)
        return "gone"


def title(process: psutil.Process) -> str:
    """Return how a process calls itself, without its arguments."""
    words = process.cmdline()
    if not words:
        return process.name()
    return words[0] if len(words) == 1 or "::" in words[0] else " ".join(Path(w).name for w in words[:4])


class Gpus:
    """What NVML says between boots. Empty where there is no NVML."""

    def __init__(self) -> None:
        self._handles: list[Any] = []
        try:
            import pynvml

            pynvml.nvmlInit()
            self._nvml = pynvml
            self._handles = [pynvml.nvmlDeviceGetHandleByIndex(n) for n in range(pynvml.nvmlDeviceGetCount())]
        except Exception:  # noqa: BLE001 - without a driver there is nothing to say
            self._handles = []

    def pids(self) -> dict[int, list[int]]:
        """Return the processes that compute on each GPU."""
        ask = self._nvml.nvmlDeviceGetComputeRunningProcesses if self._handles else None
        return {n: sorted(p.pid for p in ask(h)) for n, h in enumerate(self._handles)} if ask else {}

    def used_bytes(self) -> list[int]:
        """Return the memory in use of each GPU."""
        return [int(self._nvml.nvmlDeviceGetMemoryInfo(h).used) for h in self._handles]

    def wait_free(self, longest_s: float) -> bool:
        """Return whether every GPU's memory was given back in time."""
        deadline = time.monotonic() + longest_s
        while any(used > _FREED_BYTES for used in self.used_bytes()):
            if time.monotonic() > deadline:
                return False
            time.sleep(0.5)
        return True

    def describe(self) -> list[dict[str, Any]]:
        """Return name and memory of each GPU; no serial, no UUID."""
        ask = self._nvml if self._handles else None
        return [
            {"name": ask.nvmlDeviceGetName(h), "memory_total_bytes": int(ask.nvmlDeviceGetMemoryInfo(h).total)}
            for h in self._handles
        ]


def describe(python: Path, env: Mapping[str, str]) -> dict[str, Any]:
    """Return what a reader needs to judge the figures."""
    memory = psutil.virtual_memory()
    return {
        "gpus": (gpus := Gpus()).describe(),
        "driver": _driver(gpus),
        "cpu": _cpu_model(),
        "cpus": len(os.sched_getaffinity(0)),
        "memory_total_gib": round(memory.total / (1 << 30), 1),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "packages": _packages(python, env),
        "inherited": {
            name: env[name]
            for name in ("PYTHONDONTWRITEBYTECODE", "NCCL_NVLS_ENABLE", "OMP_NUM_THREADS")
            if name in env
        },
    }


def _driver(gpus: Gpus) -> str | None:
    return gpus._nvml.nvmlSystemGetDriverVersion() if gpus._handles else None


def _packages(python: Path, env: Mapping[str, str]) -> dict[str, str]:
    code = (
        "import importlib.metadata as m, json\n"
        "def v(n):\n"
        "    try: return m.version(n)\n"
        "    except Exception: return None\n"
        "print(json.dumps({n: v(n) for n in ('vllm', 'torch', 'triton', 'transformers', 'safetensors')}))"
    )
    done = subprocess.run([str(python), "-c", code], capture_output=True, timeout=60, check=False, env=dict(env))
    return {k: v for k, v in json.loads(done.stdout or b"{}").items() if v}


def _cpu_model() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()
