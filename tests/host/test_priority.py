"""Stepping back behind everybody else."""

from __future__ import annotations

import subprocess
import sys

BE_IDLE = """
import os
from kboot.host.priority import be_idle
be_idle()
print(os.getpriority(os.PRIO_PROCESS, 0), os.sched_getscheduler(0) == os.SCHED_IDLE)
from ctypes import CDLL, c_long
from kboot.host.priority import _IOPRIO_SET
import platform
get = {"x86_64": 252, "aarch64": 31}.get(platform.machine())
print(CDLL(None).syscall(c_long(get), 1, 0) >> 13 if get else 3)
"""


def test_an_idle_process_yields_cpu_and_disk_to_all_others() -> None:
    """The nicest value, the scheduler's idle policy, and the idle class of I/O."""
    done = subprocess.run([sys.executable, "-c", BE_IDLE], capture_output=True, text=True, timeout=60, check=True)

    assert ["19", "True", "3"] == done.stdout.split()
