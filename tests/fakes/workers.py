"""Real processes with an engine's titles and idle threads, to be found and pinned.

Run as a program: `workers.py TITLE=THREADS...` forks one process for each title, prints READY, and waits for its
stdin to end. A line "more" on stdin makes every worker start one more thread.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kboot.demo import proc


def work(title: str, threads: int) -> None:
    """Be a worker: threads that only wait, one more for each SIGUSR1, until the parent ends."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
    proc.set_title(title)
    waits = threading.Event().wait
    for _ in range(threads - 1):
        threading.Thread(target=waits, daemon=True).start()
    os.write(1, b"up\n")
    while True:
        signal.sigwait({signal.SIGUSR1})
        threading.Thread(target=waits, daemon=True).start()


def main(asked: list[str]) -> None:
    pids = []
    for title, _, threads in (word.rpartition("=") for word in asked):
        parent = os.getpid()
        pid = os.fork()
        if pid == 0:
            proc.die_with_parent(parent)
            work(title, int(threads))
        pids.append(pid)
    for line in sys.stdin:
        if line == "more\n":
            for pid in pids:
                os.kill(pid, signal.SIGUSR1)
    for pid in pids:
        os.kill(pid, signal.SIGKILL)


@contextmanager
def running(*workers: str) -> Iterator[subprocess.Popen[str]]:
    """Run workers ("VLLM::Worker_DP0=4") in a session of their own until the block ends."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    child = subprocess.Popen(
        [sys.executable, str(Path(__file__)), *workers],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=env,
        start_new_session=True,
    )
    try:
        assert child.stdout is not None
        assert ["up\n"] * len(workers) == [child.stdout.readline() for _ in workers]
        yield child
    finally:
        assert child.stdin is not None
        child.stdin.close()
        child.wait(20)


if __name__ == "__main__":
    main(sys.argv[1:])
