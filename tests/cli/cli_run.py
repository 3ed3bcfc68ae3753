"""Runs the real command line in folders of its own."""

from __future__ import annotations

import fcntl
import json
import os
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

DEADLINE_S = 60.0
KEPT = ("PATH", "HOME", "LANG", "PYTHONPATH", "COVERAGE_PROCESS_START")


@dataclass(frozen=True)
class Ran:
    """How one command ended."""

    status: int
    out: str
    err: str

    @property
    def doc(self) -> dict[str, Any]:
        """Its one JSON document."""
        found = json.loads(self.out)
        assert isinstance(found, dict)
        return found


@dataclass
class Kboot:
    """`python -m kboot` with state, runtime and configuration below `folder`, and nobody to ask on the network."""

    folder: Path
    env: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("state", "run", "etc"):
            (self.folder / name).mkdir()

    @property
    def environ(self) -> dict[str, str]:
        """The whole environment of a run."""
        return {
            **{name: os.environ[name] for name in KEPT if name in os.environ},
            "KBOOT_STATE_DIR": str(self.folder / "state"),
            "KBOOT_RUNTIME_DIR": str(self.folder / "run"),
            "KBOOT_CONFIG_DIR": str(self.folder / "etc"),
            "HF_ENDPOINT": "http://127.0.0.1:9",  # discard: nobody listens
            **self.env,
        }

    def __call__(self, *args: str, env: Mapping[str, str] | None = None) -> Ran:
        return self._run([sys.executable, "-m", "kboot", *args], env or {})

    def on_terminal(self, *args: str) -> str:
        """Run a command whose stderr is a terminal of 80 columns; return what was written on it."""
        screen, slave = os.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        argv = [sys.executable, "-m", "kboot", *args]
        env = {**self.environ, "TERM": "xterm"}
        with subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=slave, env=env):
            os.close(slave)
            written = b""
            with suppress(OSError), os.fdopen(screen, "rb", buffering=0) as reader:  # EIO: nobody writes any more
                while piece := reader.read(65536):
                    written += piece
        return written.decode()

    def script(self, code: str, *args: str, env: Mapping[str, str] | None = None) -> Ran:
        """Run a small program instead."""
        return self._run([sys.executable, "-c", code, *args], env or {})

    def _run(self, argv: list[str], env: Mapping[str, str]) -> Ran:
        done = subprocess.run(
            argv, capture_output=True, text=True, timeout=60, env={**self.environ, **env}, stdin=subprocess.DEVNULL
        )
        return Ran(done.returncode, done.stdout, done.stderr)


@contextmanager
def hub(folder: Path, *options: str) -> Iterator[str]:
    """Run the demo Hub with six small shards; yield its endpoint."""
    port_file = folder / "hub.json"
    port_file.unlink(missing_ok=True)
    argv = [sys.executable, "-m", "kboot.demo.hub", "--data", str(folder / "hub"), "--port-file", str(port_file)]
    argv += ["--shards", "6", "--mib-per-shard", "0.5", "--with-parent", *options]
    with open(folder / "hub.log", "wb") as log:
        server = subprocess.Popen(argv, stdout=log, stderr=log)
        try:
            wait_for(lambda: port_file.exists() and port_file.read_text().strip(), server)
            yield json.loads(port_file.read_text())["endpoint"]
        finally:
            server.terminate()
            server.wait(30)


def wait_for(condition: Callable[[], object], process: subprocess.Popen[Any]) -> None:
    """Wait until the condition holds; fail when the process ends or a minute has passed."""
    deadline_s = time.monotonic() + DEADLINE_S
    while not condition():
        assert process.poll() is None, "the process ended"
        assert time.monotonic() < deadline_s, "nothing came in a minute"
        time.sleep(0.02)
