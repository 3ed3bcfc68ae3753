import threading

import pytest

from kboot.errors import SourceError
from kboot.sources.patience import Patience, back_off_s, not_yet_s
from kboot.sources.types import NotYet, RateLimited

BROKEN = SourceError("connection-cut", "closed", retry=True)
FAILING = SourceError("source-failing", "503", retry=True)
FINAL = SourceError("auth", "401")
NO_NAME = NotYet("name-not-resolved", "no answer", retry=True)


class Waits:
    """A clock that only counts what it was asked to sleep."""

    def __init__(self, not_yet_for_s: float = 0.0, *, needed: bool = True) -> None:
        self.slept: list[float] = []
        self.said: list[tuple[str, float]] = []
        self.patience = Patience(
            lambda why, wait_s: self.said.append((why, wait_s)), self.slept.append, not_yet_for_s, lambda: needed
        )


def test_what_may_pass_is_asked_three_times() -> None:
    """Two waits, each longer, then the error itself."""
    waits = Waits()
    waits.patience.wait_or_raise(BROKEN)
    waits.patience.wait_or_raise(BROKEN)

    with pytest.raises(SourceError) as caught:
        waits.patience.wait_or_raise(BROKEN)
    assert BROKEN is caught.value
    assert sorted(waits.slept) == waits.slept and 2 == len(waits.slept)


def test_what_will_not_pass_is_not_asked_again() -> None:
    """A refused token is told at once."""
    with pytest.raises(SourceError):
        Waits().patience.wait_or_raise(FINAL)


def test_a_resolver_that_is_not_up_is_no_failed_try() -> None:
    """B132: EAI_AGAIN for a while in the first minutes: waited for, told, and the tries are all still there."""
    waits = Waits(not_yet_for_s=60.0)
    for _ in range(10):
        waits.patience.wait_or_raise(NO_NAME)
    waits.patience.wait_or_raise(BROKEN)
    waits.patience.wait_or_raise(BROKEN)

    assert 20.0 == sum(waits.slept[:10])
    assert [("no answer", 2.0)] * 10 == waits.said[:10]
    assert 12 == len(waits.said)


def test_a_name_that_is_unknown_while_the_machine_starts_is_asked_for_again() -> None:
    """nickjer/namecheap-ddns#4: EAI_NONAME right after a boot; later it is a name that is written wrongly."""
    unknown = SourceError("host-unknown", "there is no host hub")
    waits = Waits(not_yet_for_s=60.0)
    waits.patience.wait_or_raise(unknown)

    assert [2.0] == waits.slept
    with pytest.raises(SourceError):
        Waits(not_yet_for_s=10.0).patience.wait_or_raise(unknown)


def test_the_wait_for_the_machine_ends() -> None:
    """After its time is over the error is told."""
    with pytest.raises(NotYet):
        Waits(not_yet_for_s=0.0).patience.wait_or_raise(NO_NAME)


def test_a_rate_limit_is_waited_out_within_bounds() -> None:
    """As long as the server says, ten minutes in all."""
    waits = Waits()
    limited = RateLimited("rate-limited", "429", retry_after_s=250.0)
    waits.patience.wait_or_raise(limited)
    waits.patience.wait_or_raise(limited)

    with pytest.raises(RateLimited):
        waits.patience.wait_or_raise(limited)
    assert [250.5, 250.5] == waits.slept


def test_only_a_machine_that_just_started_is_waited_for_long() -> None:
    """Minutes after the kernel's start, seconds later on."""
    assert not_yet_s(30.0) > 120.0 > 15.0 > not_yet_s(86400.0)


def test_back_off_grows_and_ends() -> None:
    """Doubling up to eight seconds, spread over half of it."""
    assert [0.25, 0.5, 1.0] == [back_off_s(n, 0.0) for n in (1, 2, 3)]
    assert 8.0 >= back_off_s(50, 0.999)


def test_a_server_out_of_order_gets_the_time_of_a_restart() -> None:
    """5xx is asked again for 20 to 30 seconds in all, and then told."""
    waits = Waits()
    with pytest.raises(SourceError) as caught:
        for _ in range(20):
            waits.patience.wait_or_raise(FAILING)

    assert FAILING is caught.value
    assert 20.0 <= sum(waits.slept) <= 30.0


@pytest.mark.parametrize("error", [BROKEN, FAILING, NO_NAME], ids=lambda error: error.code)
def test_what_can_be_done_without_is_asked_once(error: SourceError) -> None:
    """A source that is away is told at once."""
    waits = Waits(not_yet_for_s=10.0, needed=False)
    with pytest.raises(SourceError):
        waits.patience.wait_or_raise(error)

    assert [] == waits.slept


def test_what_is_known_to_pass_is_waited_for_even_so() -> None:
    """A rate limit, and the resolver of a machine that has just started: else a branch would never be followed."""
    waits = Waits(not_yet_for_s=180.0, needed=False)
    waits.patience.wait_or_raise(RateLimited("rate-limited", "429", retry_after_s=250.0))
    waits.patience.wait_or_raise(NO_NAME)

    assert [250.5, 2.0] == waits.slept


def test_a_wait_ends_when_kboot_is_told_to_stop() -> None:
    """The wait for a rate limit of minutes is left, and what is told is the stop, not the limit."""
    limited = RateLimited("rate-limited", "429", retry_after_s=250.0)
    stop = threading.Event()
    threading.Timer(0.05, stop.set).start()
    with pytest.raises(SourceError) as caught:
        Patience().wait_or_raise(limited, stop)

    assert "interrupted" == caught.value.code
