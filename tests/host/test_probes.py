"""Probes that answer, hang, die and break."""

from __future__ import annotations

import os
import signal
import threading
import time

import psutil
import pytest

from kboot.errors import KbootError
from kboot.host.probes import ProbeFailed, ask_in_child, at_most, within


def test_an_answer_of_any_size_comes_back() -> None:
    """A value larger than a pipe holds is the same in the parent."""
    assert {"bytes": b"x" * (4 << 20)} == ask_in_child(lambda: {"bytes": b"x" * (4 << 20)}, 30)


def test_the_question_is_asked_in_another_process() -> None:
    """What the question changes stays in the child."""
    assert os.getpid() != ask_in_child(os.getpid, 30)


def test_a_probe_that_hangs_is_killed_at_the_deadline() -> None:
    """A question that never answers costs its deadline, and its process is gone afterwards."""
    before = psutil.Process().children()
    with pytest.raises(ProbeFailed, match="no answer"):
        ask_in_child(lambda: time.sleep(3600), 0.2)

    assert before == psutil.Process().children()


def test_a_probe_that_cannot_be_asked_to_stop_is_killed_too() -> None:
    """A child that ignores SIGTERM, as one in a driver does, does not hold up its parent."""

    def stubborn() -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        time.sleep(3600)

    with pytest.raises(ProbeFailed, match="no answer"):
        ask_in_child(stubborn, 0.2)


def test_a_probe_that_dies_says_so() -> None:
    """A child that the kernel ended gave no answer."""
    with pytest.raises(ProbeFailed, match="ended without an answer"):
        ask_in_child(lambda: os.kill(os.getpid(), signal.SIGKILL), 30)


def test_an_error_of_ours_keeps_its_words() -> None:
    """A KbootError crosses with code, message, place and hint."""

    def refuse() -> None:
        raise KbootError("disk-gone", "the disk is gone", where=("/dev/sda",), hint="look")

    with pytest.raises(KbootError, match="the disk is gone") as caught:
        ask_in_child(refuse, 30)
    assert ("disk-gone", ("/dev/sda",), "look") == (caught.value.code, caught.value.where, caught.value.hint)


def test_a_bug_in_a_question_is_reported_not_raised() -> None:
    """Anything else is a probe that failed, named by its class."""
    with pytest.raises(ProbeFailed, match="ZeroDivisionError"):
        ask_in_child(lambda: 1 // 0, 30)


def test_an_answer_that_cannot_cross_is_a_failed_probe() -> None:
    """A lock is no answer."""
    with pytest.raises(ProbeFailed, match="the probe met"):
        ask_in_child(threading.Lock, 30)


def test_several_probes_share_one_time_limit() -> None:
    """However much each is allowed: when the time of all is up, the next is not even asked."""
    with within(3600.0):
        assert 30 == at_most(30)
        assert 3 == ask_in_child(lambda: 3, 60)
        with within(0.0), pytest.raises(ProbeFailed, match="no time is left"):
            ask_in_child(lambda: 3, 60)
        with within(7200.0):
            assert at_most(9000) <= 3600
    assert 9000 == at_most(9000)


def test_a_probe_that_hangs_is_killed_when_the_time_of_all_is_up() -> None:
    """Its own hour does not count."""
    with within(0.3), pytest.raises(ProbeFailed, match=r"no answer in 0\.[0-3] s|no time is left"):
        ask_in_child(lambda: time.sleep(3600), 3600)
