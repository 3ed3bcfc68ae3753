"""How is a thread of another process kept to some CPUs?"""

from __future__ import annotations

import os
from collections.abc import Collection

from kboot.cpulist import format_cpu_list


def pin_task(tid: int, cpus: Collection[int]) -> str:
    """Keep one thread to these CPUs; return why it could not be had, empty when it is so or the thread is gone.

    Of a process, only the thread that is named changes: its siblings keep their masks, and what a thread starts
    inherits its own.
    """
    wanted = set(cpus)
    try:
        os.sched_setaffinity(tid, wanted)
        found = os.sched_getaffinity(tid)
    except ProcessLookupError:
        return ""
    except PermissionError:
        return "not allowed: kboot needs to be the same user, or CAP_SYS_NICE"
    except OSError as exc:  # EINVAL: no usable CPU among them
        return f"the kernel refuses CPUs {format_cpu_list(wanted)}: {exc.strerror}; its cpuset may not hold them"
    if found != wanted:  # a mask that is only partly usable is cut without an error
        return f"of CPUs {format_cpu_list(wanted)} the kernel granted {format_cpu_list(found)}"
    return ""


def pin_myself(cpus: Collection[int]) -> str:
    """Keep every thread of this process, and what they start, to these CPUs; return why not, empty when it is so."""
    reasons = {pin_task(int(tid), cpus) for tid in os.listdir("/proc/self/task")}
    return "; ".join(sorted(reasons - {""}))
