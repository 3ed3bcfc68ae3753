"""Sources of a process that was told to stop."""

from __future__ import annotations

import threading

import pytest

from fakes.fetching import sources_of
from fakes.hub import REPO, FakeHub, Status, Trickle
from kboot.errors import SourceError
from kboot.sources.stopping import answer_or_leave, interrupted_by

FILES = {"config.json": b"{}"}


def stop_when_asked(hub: FakeHub, stop: threading.Event) -> None:
    """Set `stop` as soon as the Hub was asked."""
    while not hub.requests and not hub.released.wait(0.01):
        pass
    stop.set()


@pytest.mark.parametrize("answer", [Trickle(), Status(429, {"Retry-After": "200"})])
def test_a_listing_that_waits_ends_with_the_process(answer: Status | Trickle) -> None:
    """A stalled listing and the wait for a rate limit both end when `stop` is set."""
    stop = threading.Event()
    with FakeHub(FILES) as hub:
        hub.api_status = [answer]
        sources = sources_of(hub.url)
        threading.Thread(target=stop_when_asked, args=(hub, stop)).start()
        with interrupted_by(stop, sources), pytest.raises(SourceError) as caught:
            sources[0].list(REPO, "main")

    assert caught.value.code in ("interrupted", "rate-limited")
    assert 1 == len(hub.requests)


def test_sources_of_a_process_that_goes_on_are_left_alone() -> None:
    """What is not stopped is not interrupted, during the block or after it."""
    stop = threading.Event()
    with FakeHub(FILES) as hub:
        sources = sources_of(hub.url)
        with interrupted_by(stop, sources):
            sources[0].list(REPO, "main")
        with interrupted_by(None, sources):
            found = sources[0].list(REPO, "main")

    assert ["config.json"] == [file.path for file in found.files]


def test_an_answer_and_an_error_come_through() -> None:
    """What is asked in a thread of its own ends as if it were asked here."""

    def fail() -> int:
        raise ValueError("x")

    assert 5 == answer_or_leave(lambda: 5, threading.Event(), 60.0)
    with pytest.raises(ValueError, match="x"):
        answer_or_leave(fail, threading.Event(), 60.0)


def test_what_does_not_end_is_left() -> None:
    """When its time is over, and when the process is told to stop."""
    never, stop = threading.Event(), threading.Event()
    with pytest.raises(TimeoutError):
        answer_or_leave(lambda: never.wait(60), stop, 0.1)
    stop.set()
    with pytest.raises(SourceError) as stopped:
        answer_or_leave(lambda: never.wait(60), stop, 60.0)
    never.set()

    assert "interrupted" == stopped.value.code
