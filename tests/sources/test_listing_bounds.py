"""The time, the bytes and the origins of one listing; test_hub_listing.py has the same with a Hub."""

from __future__ import annotations

import threading

import pytest

from kboot.errors import SourceError
from kboot.sources.listing_bounds import Bounds, answer_or_leave

LATE = SourceError("source-silent", "late")


def test_an_answer_and_an_error_come_through() -> None:
    """What is asked in a thread of its own ends as if it were asked here."""

    def fail() -> int:
        raise ValueError("x")

    assert 5 == answer_or_leave(lambda: 5, threading.Event(), 60.0, LATE)
    with pytest.raises(ValueError, match="x"):
        answer_or_leave(fail, threading.Event(), 60.0, LATE)


def test_what_does_not_end_is_left() -> None:
    """A call that hangs where nobody can reach it, in a resolver or a TLS handshake."""
    never, stop = threading.Event(), threading.Event()
    with pytest.raises(SourceError) as late:
        answer_or_leave(never.wait, stop, 0.2, LATE)
    threading.Timer(0.1, stop.set).start()
    with pytest.raises(SourceError) as stopped:
        answer_or_leave(never.wait, stop, 60.0, LATE)
    never.set()

    assert ("source-silent", "interrupted") == (late.value.code, stopped.value.code)


def test_a_listing_whose_time_is_over_asks_nothing_more() -> None:
    """A thread that was left ends at its next step."""
    with pytest.raises(SourceError) as caught:
        Bounds("https://hub.example", threading.Event(), 0.0, 1).check_time()

    assert "source-silent" == caught.value.code and "hub.example:443" in caught.value.message
