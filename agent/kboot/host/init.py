"""What must the first process of a container do besides its work? Collect dead orphans, pass signals on."""

from __future__ import annotations

import os
import signal

_FORWARDED = (
    *(signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2),
    signal.SIGWINCH,
)


def split_off_init() -> int | None:
    """Fork where this process is number 1; return None in the process that is to do the work, which is another then.

    Process 1 stays behind: the kernel gives it every orphan of its namespace, and signals without a handler do not
    reach it. It returns the status to exit with when the work has ended, 128 + N for signal N, as shells do. Whatever
    still runs then is killed by the kernel with it. Call it before there are threads.
    """
    if os.getpid() != 1:
        return None
    # Blocked first: one that comes before the child exists is passed on afterwards.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, (*_FORWARDED, signal.SIGCHLD))
    worker = os.fork()
    if worker == 0:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        return None
    return _until_it_ends(worker)


def _until_it_ends(worker: int) -> int:
    while True:
        came = signal.sigwait((*_FORWARDED, signal.SIGCHLD))
        if came != signal.SIGCHLD:
            os.kill(worker, came)  # not collected yet, so the number is still its own
        elif (status := _collect(worker)) is not None:
            return status


def _collect(worker: int) -> int | None:
    """Take every process that has ended; return the worker's status when it is among them."""
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return None
        if pid == 0:
            return None
        if pid == worker:
            code = os.waitstatus_to_exitcode(status)
            return 128 - code if code < 0 else code
