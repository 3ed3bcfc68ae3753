"""`kboot boot --serve` as the first process of a container."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from cli_run import DEADLINE_S, Kboot, hub, wait_for

from booting import free_port

NAMESPACE = ("unshare", "--pid", "--fork", "--kill-child", "--mount-proc", "--")


def why_not() -> str:
    """Return why there is no process namespace here; empty when there is."""
    if shutil.which("unshare") is None:
        return "needs unshare (package util-linux)"
    done = subprocess.run([*NAMESPACE, "true"], capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else f"no process namespace here: {done.stderr.strip()}"


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@pytest.mark.parametrize("killed", [False, True])
def test_it_serves_and_ends_as_process_1(kboot: Kboot, killed: bool) -> None:
    """SIGTERM to process 1 stops the engine in order, with 0; an engine that was killed ends the container with 14."""
    if reason := why_not():
        pytest.skip(reason)
    serve = ("--set", f"serve.port={free_port()}", "--set", "serve.host=127.0.0.1")
    argv = [*NAMESPACE, sys.executable, "-m", "kboot", "boot", "--profile", "demo", *serve, "--serve", "--json"]
    with (
        hub(kboot.folder) as endpoint,
        open(kboot.folder / "out", "wb") as out,
        open(kboot.folder / "err", "wb") as err,
    ):
        env = {**kboot.environ, "HF_ENDPOINT": endpoint}
        container = subprocess.Popen(argv, stdout=out, stderr=err, env=env)
        wait_for(lambda: (kboot.folder / "out").read_text().endswith("}\n"), container)
        (first,) = children(container.pid)
        (worker,) = children(first)
        if killed:
            os.kill(engine_of(worker), signal.SIGKILL)
        else:
            os.kill(first, signal.SIGTERM)
        status = container.wait(DEADLINE_S)

    assert (14 if killed else 0) == status, (kboot.folder / "err").read_text()[-2000:]
    assert not Path(f"/proc/{first}").exists()


def engine_of(kboot_pid: int) -> int:
    """Return the engine's front end among kboot's children."""
    return next(pid for pid in children_of_threads(kboot_pid) if b"kboot.demo.engine" in cmdline(pid))


def children_of_threads(pid: int) -> list[int]:
    found = [(task / "children").read_text().split() for task in Path(f"/proc/{pid}/task").iterdir()]
    return [int(child) for each in found for child in each]


def cmdline(pid: int) -> bytes:
    return Path(f"/proc/{pid}/cmdline").read_bytes()
