"""How does this process step back behind everybody else who wants CPU or disk?"""

from __future__ import annotations

import ctypes
import os
import platform
from contextlib import suppress

_IOPRIO_SET = {"x86_64": 251, "aarch64": 30}
_WHO_PROCESS = 1
_IDLE_CLASS = 3 << 13
_NICEST = 19

_libc = ctypes.CDLL(None, use_errno=True)


def be_idle() -> None:
    """Let this process and its later threads work only when nobody else would; what is refused is left as it was."""
    with suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, _NICEST)
    with suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    number = _IOPRIO_SET.get(platform.machine())
    if number is not None:
        _libc.syscall(ctypes.c_long(number), _WHO_PROCESS, 0, _IDLE_CLASS)
