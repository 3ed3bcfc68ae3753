"""The first process of a container: a process namespace of its own, in which kboot is number 1."""

from __future__ import annotations

import functools
import os
import shutil
import signal
import subprocess
import sys

import pytest

NAMESPACE = ("unshare", "--pid", "--fork", "--kill-child", "--mount-proc", "--")
INIT = "import os, signal, subprocess, sys, time; from kboot.host.init import split_off_init\n"
SPLIT = INIT + "status = split_off_init()\nif status is not None: sys.exit(status)\n"


@functools.cache
def why_not() -> str:
    """Return why there is no process namespace here; empty when there is."""
    if shutil.which("unshare") is None:
        return "needs unshare (package util-linux)"
    done = subprocess.run([*NAMESPACE, "true"], capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else f"no process namespace here: {done.stderr.strip()}"


@pytest.fixture(autouse=True)
def namespaces() -> None:
    """Skip where the kernel gives none."""
    if reason := why_not():
        pytest.skip(reason)


def start(code: str) -> subprocess.Popen[str]:
    argv = [*NAMESPACE, sys.executable, "-c", SPLIT + code]
    return subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)


def first_process(unshare: subprocess.Popen[str]) -> int:
    """Return the number, out here, of the namespace's process 1."""
    with open(f"/proc/{unshare.pid}/task/{unshare.pid}/children") as children:
        return int(children.read().split()[0])


@pytest.mark.parametrize(("code", "status"), [("sys.exit(7)", 7), ("os.kill(os.getpid(), signal.SIGKILL)", 137)])
def test_it_ends_with_the_status_of_its_work(code: str, status: int) -> None:
    """An exit status as it is, a signal as a shell would tell it."""
    process = start(code)
    process.communicate(timeout=30)

    assert status == process.returncode


def test_signals_are_passed_on() -> None:
    """SIGTERM to process 1, which has no handler, reaches the work.

    The work waits for it with the signal blocked: one that a handler took just before a sleep would leave it asleep.
    """
    blocked = "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM]); print('up', flush=True); "
    process = start(f"{blocked}signal.sigwait([signal.SIGTERM]); sys.exit(5)")
    assert process.stdout is not None
    assert "up\n" == process.stdout.readline()
    os.kill(first_process(process), signal.SIGTERM)
    process.communicate(timeout=30)

    assert 5 == process.returncode


def test_dead_orphans_are_collected() -> None:
    """Processes whose parent has ended leave no zombies behind."""
    code = """
for _ in range(20):
    subprocess.run(["sh", "-c", "sleep 0.05 & exit 0"])
deadline = time.monotonic() + 20
def others():
    return sorted(int(p) for p in os.listdir("/proc") if p.isdigit() and int(p) not in (1, os.getpid()))
while others() and time.monotonic() < deadline:
    time.sleep(0.05)
print(others(), os.getppid())
"""
    process = start(code)
    out, _ = process.communicate(timeout=60)

    assert ("[] 1\n", 0) == (out, process.returncode)


def test_elsewhere_nothing_is_split() -> None:
    """A process that is not number 1 does its work itself."""
    code = SPLIT + "import os; print(os.getppid())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert str(os.getpid()) == done.stdout.strip()
