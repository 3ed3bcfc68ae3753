"""What does a signal do before a command has begun and after it has ended?"""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from kboot.errors import ExitStatus
from kboot.host.early import INTERRUPTED

DEADLINE_S = 60
SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
WAIT = "print('up', flush=True); time.sleep(60)"


def ended(code: str, number: signal.Signals, *more: signal.Signals) -> tuple[int, str, str]:
    """Run a program until it is up, send it signals, and return its status and what it printed then."""
    child = subprocess.Popen(
        [sys.executable, "-c", f"import atexit, signal, time\nfrom kboot.host.early import *\n{code}"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    assert child.stdout is not None
    assert "up\n" == child.stdout.readline()
    child.send_signal(number)
    for another in more:
        assert "cleaning\n" == child.stdout.readline()
        child.send_signal(another)
    out, err = child.communicate(timeout=DEADLINE_S)
    return child.returncode, out, err


def test_the_status_is_that_of_every_interruption() -> None:
    """The number stands here once more, because the module of all statuses takes too long to import."""
    assert ExitStatus.INTERRUPTED == INTERRUPTED


@pytest.mark.parametrize("number", SIGNALS)
def test_while_modules_are_loaded_it_ends_with_one_line(number: signal.Signals) -> None:
    """130 and no traceback; nothing waits for threads or exit functions."""
    code = f"end_on_signals(); atexit.register(print, 'not reached'); {WAIT}"

    assert (130, "", "kboot: interrupted\n") == ended(code, number)


@pytest.mark.parametrize("number", SIGNALS)
def test_after_its_end_a_command_keeps_its_status(number: signal.Signals) -> None:
    """A signal that comes while the interpreter winds up changes nothing of what was done."""
    code = f"atexit.register(lambda: [{WAIT.replace('; ', ', ')}]); leave_on_signals(3); raise SystemExit(3)"

    assert (3, "", "") == ended(code, number)


def test_a_second_signal_does_not_wait_for_the_clean_up() -> None:
    """The first is an interrupt with its clean-up, the second ends at once."""
    code = f"interrupt_on_signals()\ntry:\n    {WAIT}\nfinally:\n    print('cleaning', flush=True); time.sleep(60)"

    assert (130, "", "") == ended(code, signal.SIGTERM, signal.SIGINT)


def test_what_was_ignored_at_the_start_stays_ignored() -> None:
    """`nohup kboot …` lives on after SIGHUP, a job started with `&` after Ctrl-C of another."""
    code = (
        "for n in (signal.SIGHUP, signal.SIGINT):\n    signal.signal(n, signal.SIG_IGN)\n"
        "for take in (end_on_signals, interrupt_on_signals, lambda: leave_on_signals(0)):\n"
        "    take()\n    print(signal.getsignal(signal.SIGHUP) == signal.getsignal(signal.SIGINT) == signal.SIG_IGN)"
    )
    ran = subprocess.run(
        [sys.executable, "-c", f"import signal\nfrom kboot.host.early import *\n{code}"],
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
    )

    assert "True\n" * 3 == ran.stdout, ran.stderr
