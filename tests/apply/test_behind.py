"""Work in a thread behind all others, once for each offer."""

from __future__ import annotations

import threading

from kboot.apply.behind import Behind

DEADLINE_S = 60.0


def test_offers_that_come_during_the_work_count_as_one() -> None:
    """Three boots while one is looked at are looked at once more, as the last of them left the node."""
    began, go_on, done = threading.Semaphore(0), threading.Semaphore(0), threading.Semaphore(0)

    def work() -> None:
        began.release()
        assert go_on.acquire(timeout=DEADLINE_S)
        done.release()

    behind = Behind("behind", work, lambda: True, 0.01, step_back=lambda: None)
    behind.begin()
    behind.offer()
    assert began.acquire(timeout=DEADLINE_S)
    for _ in range(3):
        behind.offer()
    go_on.release()
    assert began.acquire(timeout=DEADLINE_S)
    go_on.release()
    assert done.acquire(timeout=DEADLINE_S) and done.acquire(timeout=DEADLINE_S)
    behind.end()

    assert not began.acquire(blocking=False)


def test_the_next_offer_ends_the_wait_for_an_engine() -> None:
    """What was offered before is over; the engine that is waited for then is the new one."""
    said: list[bool] = []
    asked, told = threading.Semaphore(0), threading.Semaphore(0)

    def answers() -> bool:
        asked.release()
        return bool(said)

    def work() -> None:
        said.append(behind.is_time())
        told.release()

    behind = Behind("behind", work, answers, 0.01, step_back=lambda: None)
    behind.begin()
    behind.offer()
    assert asked.acquire(timeout=DEADLINE_S)
    behind.offer()
    assert told.acquire(timeout=DEADLINE_S) and told.acquire(timeout=DEADLINE_S)
    behind.end()

    assert [False, True] == said


def test_one_that_waits_longest_goes_on_without_an_engine() -> None:
    """A node that has none is looked at all the same."""
    behind = Behind("behind", lambda: None, lambda: False, DEADLINE_S, step_back=lambda: None)

    assert behind.is_time(longest_s=0.0)
