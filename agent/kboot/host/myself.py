"""What does this process change about itself: its CPUs, memory, limits and signals, and what it becomes?

Imports little: `kboot exec` is on the way to every engine start.
"""

from __future__ import annotations

import ctypes
import gc
import os
import platform
import pwd
import resource
import signal
import sys
import threading
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from typing import NoReturn

from kboot.cpulist import format_cpu_list
from kboot.errors import ActionFailed
from kboot.host.os_errors import explained

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)

_NOT_FOR_OTHERS = 0o002
_MPOL_PREFERRED = 1  # falls back to other nodes when this one is full, where MPOL_BIND would kill
_MAX_NODES = 1024
_SET_MEMPOLICY, _GET_MEMPOLICY = {"x86_64": (238, 239), "aarch64": (237, 236)}.get(platform.machine(), (0, 0))


def become(
    argv: Sequence[str], env: Mapping[str, str], cpus: Collection[int] = (), unset: Collection[str] = ()
) -> NoReturn:
    """Replace this process by the program, on these CPUs; call it from the main thread.

    env: set on top of the inherited environment, after `unset` was removed from it; a user without a name gets one.
    cpus: empty = leave. Whatever the umask, not everybody may write what the program compiles, and runs at its next
    start. What lies beside the program is found by name too, after all that is found without: FlashInfer calls the
    `ninja` of its own environment, which no service has in its PATH (vllm#49029).

    Raises:
        ActionFailed: the CPUs or the program cannot be had.
    """
    if cpus:
        set_affinity(cpus)
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    # What exec would pass on and a program does not expect: ignored and blocked signals.
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    os.umask(os.umask(_NOT_FOR_OTHERS) | _NOT_FOR_OTHERS)
    whole = {name: value for name, value in os.environ.items() if name not in unset} | dict(env)
    whole |= missing_name(whole, os.getuid())
    folders = [*whole.get("PATH", os.defpath).split(":"), os.path.dirname(argv[0])]
    whole["PATH"] = ":".join(dict.fromkeys(folder for folder in folders if folder))
    with explained("start the engine", argv[0]):
        os.execve(argv[0], list(argv), whole)


def missing_name(env: Mapping[str, str], uid: int) -> Mapping[str, str]:
    """Return a variable that names the user where neither the environment nor /etc/passwd does; else nothing.

    Containers run under any number. Torch asks for the name when it is imported and ends without one, wherever its
    cache is (pytorch#140765, vllm#44548).
    """
    if any(env.get(name) for name in ("LOGNAME", "USER", "LNAME", "USERNAME")):
        return {}
    try:
        pwd.getpwuid(uid)
    except KeyError:
        return {"USER": f"uid{uid}"}
    return {}


def set_affinity(cpus: Collection[int]) -> None:
    """Bind the calling thread, and all it starts from now on, to these CPUs; read back.

    Raises:
        ActionFailed: the kernel refuses, or grants only part of them.
    """
    wanted = set(cpus)
    try:
        os.sched_setaffinity(0, wanted)
        found = os.sched_getaffinity(0)
    except OSError as exc:
        raise ActionFailed(
            "affinity-refused",
            f"cannot run on CPUs {format_cpu_list(wanted)}: {exc.strerror}",
            where=("sched_setaffinity",),
            hint="compare with the cpuset: `grep Cpus_allowed_list /proc/self/status`; then `kboot boot`",
        ) from exc
    if found != wanted:  # a mask that is only partly usable is cut without an error
        raise ActionFailed(
            "affinity-refused",
            f"asked for CPUs {format_cpu_list(wanted)}, the kernel granted {format_cpu_list(found)}",
            where=("sched_getaffinity",),
            hint="CPUs went offline or the cpuset shrank since the plan was made: run `kboot boot`",
        )


def set_memory_policy(node: int) -> str | None:
    """Take this process's memory from one NUMA node first, and what it starts too; return why not when refused.

    Containers often forbid the call (seccomp: EPERM) while they allow CPU affinity: the caller reports the two apart.
    """
    if not _SET_MEMPOLICY:
        return f"not known how on {platform.machine()}"
    libc = ctypes.CDLL(None, use_errno=True)
    mask = (ctypes.c_ulong * (_MAX_NODES // 64))()
    mask[node // 64] = 1 << (node % 64)
    if libc.syscall(_SET_MEMPOLICY, _MPOL_PREFERRED, mask, _MAX_NODES + 1) != 0:
        return f"set_mempolicy of node {node}: {os.strerror(ctypes.get_errno())}"
    mode = ctypes.c_int(-1)
    found = (ctypes.c_ulong * (_MAX_NODES // 64))()
    if libc.syscall(_GET_MEMPOLICY, ctypes.byref(mode), found, _MAX_NODES + 1, None, 0) != 0:
        return None  # set, and reading back is what is forbidden
    if (mode.value, list(found)) != (_MPOL_PREFERRED, list(mask)):
        return f"set_mempolicy of node {node}: the kernel kept mode {mode.value}"
    return None


def raise_nofile() -> tuple[int, int]:
    """Raise the soft limit of open files to the hard one; return it before and after."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return soft, resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def own_use() -> tuple[float, int]:
    """Return this process's CPU time in seconds, and its resident memory in bytes."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    with open("/proc/self/statm") as statm:
        pages = int(statm.read().split()[1])
    return used.ru_utime + used.ru_stime, pages * resource.getpagesize()


def give_memory_back() -> None:
    """Return what is free in this process's heap to the kernel; quiet where the C library has no such function."""
    gc.collect()
    with suppress(AttributeError):  # not glibc
        ctypes.CDLL(None).malloc_trim(0)


def handle_stop_signals(event: threading.Event) -> None:
    """Set the event on SIGTERM, SIGINT and SIGHUP, even where the parent had SIGINT ignored; main thread only.

    A SIGHUP that was ignored at the start stays so: that is what nohup means.
    """

    def on_signal(_number: int, _frame: object) -> None:
        # In a thread, because the main thread may hold the event's own lock at this very instant.
        threading.Thread(target=event.set, name="stop", daemon=True).start()

    for number in STOP_SIGNALS:
        if number == signal.SIGHUP and signal.getsignal(number) == signal.SIG_IGN:
            continue
        signal.signal(number, on_signal)
