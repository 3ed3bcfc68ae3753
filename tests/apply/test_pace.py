"""A rate over all threads."""

from __future__ import annotations

import threading
import time

from kboot.apply.pace import Throttle

MIB = 1 << 20


def test_bytes_wait_until_they_fit_into_the_rate() -> None:
    """Four threads together are as fast as the rate, however they take turns."""
    throttle, began = Throttle(8 * MIB, threading.Event()), time.monotonic()
    threads = [threading.Thread(target=lambda: [throttle.pass_by(MIB // 4) for _ in range(4)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert 0.45 <= time.monotonic() - began


def test_without_a_rate_and_once_stopped_nobody_waits() -> None:
    """0 means no limit; a stop ends every wait at once."""
    stop = threading.Event()
    Throttle(0, stop).pass_by(1 << 60)
    stop.set()
    Throttle(1, stop).pass_by(1 << 60)
