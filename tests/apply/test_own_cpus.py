"""Which CPUs does kboot itself work on?"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

CPUS = sorted(os.sched_getaffinity(0))

CODE = """
import os, sys, threading
from kboot.apply.own_cpus import OwnCpus
from kboot.host.real import RealHost
from kboot.report.workers import check_worker
from kboot.handoff import WorkerPlan

def masks():
    return [sorted(os.sched_getaffinity(int(tid))) for tid in os.listdir("/proc/self/task")]

def workers(cpus):
    return [check_worker(WorkerPlan(0, None, tuple(cpus), 1, None), None)]

wait = threading.Event()
threading.Thread(target=wait.wait, daemon=True).start()
every = sorted(os.sched_getaffinity(0))
own = OwnCpus(RealHost())
own.leave_to(workers(every[:1]))
print(masks() == [every[1:]] * 2)
own.leave_to(workers(every[:1]))
own.take_back()
print(masks() == [every] * 2)
own.leave_to(workers(every))
own.leave_to([])
own.take_back()
print(masks() == [every] * 2)
"""


@pytest.mark.skipif(len(CPUS) < 2, reason="needs two CPUs")
def test_every_thread_keeps_off_the_workers_cpus_and_comes_back() -> None:
    """Where the workers have all CPUs, or there are no workers, nothing changes."""
    ran = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, timeout=60)

    assert "True\n" * 3 == ran.stdout, ran.stderr
