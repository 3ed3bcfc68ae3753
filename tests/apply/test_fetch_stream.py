import threading

from kboot.apply.fetch_stream import Throttle
from kboot.host.clock import monotonic_s


def test_a_throttle_spreads_bytes_over_time() -> None:
    """Twenty pieces of 10 kB at 1 MB/s, by two streams, cannot be through before 0.2 s."""
    throttle = Throttle(1_000_000, threading.Event())
    began = monotonic_s()
    threads = [threading.Thread(target=lambda: [throttle.pass_by(10_000) for _ in range(10)]) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert 0.19 <= monotonic_s() - began


def test_no_rate_is_no_wait() -> None:
    """Rate 0 lets everything pass, also when told to stop."""
    Throttle(0, threading.Event()).pass_by(1 << 60)


def test_a_stop_ends_the_wait() -> None:
    """A stream that waits for its turn is woken when kboot is told to stop."""
    stop = threading.Event()
    stop.set()

    Throttle(1, stop).pass_by(1 << 40)
