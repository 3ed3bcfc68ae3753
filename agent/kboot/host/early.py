"""What does a signal do before a command has begun and after it has ended? Imports next to nothing."""

from __future__ import annotations

import os
import signal
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
