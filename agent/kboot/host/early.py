"""What does a signal do before a command has begun and after it has ended? Imports next to nothing."""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress

INTERRUPTED = 130  # kboot.errors.ExitStatus.INTERRUPTED, which takes long to import


def end_on_signals() -> None:
    """From now on SIGTERM, SIGINT and SIGHUP end this process as they do later: one line, status 130, no traceback.

    For the time in which modules are loaded, when there is nothing to clean up yet. A SIGINT or SIGHUP that was
    ignored at the start stays so: that is what a shell's `&` and nohup mean.
    """

    def on_signal(_number: int, _frame: object) -> None:
        with suppress(OSError):  # stderr may be closed
            os.write(2, b"kboot: interrupted\n")
        os._exit(INTERRUPTED)

    _set(on_signal)


def leave_on_signals(status: int) -> None:
    """From now on the same signals end this process at once with the status that its command has ended with."""
    _set(lambda _number, _frame: os._exit(status))


def end_interrupted() -> None:
    """End this process with status 130, whatever was interrupted.

    The interpreter would end itself by SIGINT where a KeyboardInterrupt came out of exec(), in which dataclasses are
    made (CPython's _Py_UnhandledKeyboardInterrupt), so that who waits for it sees a signal instead of a status.
    """
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(INTERRUPTED)


def interrupt_on_signals() -> None:
    """Make the same signals raise KeyboardInterrupt, so that the command cleans up; main thread only.

    A second one does not wait for that: what is on the disk is whole at every instant.
    """
    came = False

    def on_signal(_number: int, _frame: object) -> None:
        nonlocal came
        if came:
            os._exit(INTERRUPTED)
        came = True
        raise KeyboardInterrupt

    _set(on_signal)


def _set(handler: signal._HANDLER) -> None:
    signal.signal(signal.SIGTERM, handler)
    for number in (signal.SIGINT, signal.SIGHUP):
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, handler)
