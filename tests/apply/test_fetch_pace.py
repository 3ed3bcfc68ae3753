"""How many streams, and which is too slow: decided on made-up clocks."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import pytest

from kboot.apply.fetch_pace import CRAWL_BYTES_S, CRAWL_S, SPEED_WINDOW_S, Cpus, Crawl, Growth, Speeds, Watch

MB = 1_000_000


def run(
    growth: Growth, rate_of: Callable[[int], float], seconds: float, own_cpus: float = 0.1, idle_cpus: float = 1.0
) -> list[int]:
    """Let time pass; return the number of streams at each look.

    rate_of: bytes a second that so many streams bring. own_cpus, idle_cpus: used by the fetch and by nobody.
    """
    moved, now, seen = 0.0, 0.0, []
    while now < seconds:
        seen.append(growth.look(now, int(moved), Cpus(own_cpus * now, idle_cpus * now)))
        now += 0.2
        moved += rate_of(seen[-1]) * 0.2
    return seen


def test_streams_double_while_that_pays() -> None:
    """Each connection brings its 50 MB/s: as many as allowed are opened, within seconds."""
    seen = run(Growth(8, 64, 16, 16), lambda n: 50 * MB * n, 10)

    assert [8, 16, 32, 64] == sorted(set(seen))
    assert 64 == seen[-1]


def test_streams_that_bring_nothing_are_given_back() -> None:
    """The line is full with 8: a try with 16 ends after a second, and the next one is much later."""
    seen = run(Growth(8, 64, 16, 16), lambda n: 1000 * MB, 100)

    assert {8, 16} == set(seen)
    assert 8 == seen[-1]
    tries = sum(a != b for a, b in pairwise(seen)) // 2
    assert 3 <= tries <= 4
    assert seen.count(16) < len(seen) / 10


def test_growth_ends_where_the_gain_ends() -> None:
    """A limit of 1.2 GB/s in all: what goes beyond it does not stay."""
    seen = run(Growth(8, 64, 16, 16), lambda n: min(50 * MB * n, 1200 * MB), 9)

    assert 32 == seen[-1]


def test_busy_processors_are_not_given_more_to_do() -> None:
    """Both CPUs are hashing: another connection would only take from the others."""
    assert {8} == set(run(Growth(8, 64, 2, 2), lambda n: 50 * MB * n, 30, own_cpus=1.95, idle_cpus=0.05))


def test_two_of_many_processors_are_all_that_this_process_may_use() -> None:
    """A container with 2 of 64 CPUs: idle ones of others are none of its own."""
    assert {8} == set(run(Growth(8, 64, 2, 64), lambda n: 50 * MB * n, 30, own_cpus=1.95, idle_cpus=60.0))


def test_a_fetch_whose_packets_keep_the_kernel_busy_opens_no_more() -> None:
    """It uses 1.4 of 2 CPUs, receiving for it the rest: none is idle, and more connections would bring nothing."""
    assert {8} == set(run(Growth(8, 64, 2, 2), lambda n: 50 * MB * n, 30, own_cpus=1.4, idle_cpus=0.02))


def test_beside_other_work_connections_that_pay_are_opened() -> None:
    """A compiler has all the CPUs, and each connection brings its 50 MB/s: that is no reason to stay with 8."""
    assert 64 == run(Growth(8, 64, 16, 16), lambda n: 50 * MB * n, 10, own_cpus=2.0, idle_cpus=0.0)[-1]


def test_a_number_that_was_asked_for_stays() -> None:
    """first = most: nothing to decide."""
    assert {5} == set(run(Growth(5, 5, 16, 16), lambda n: 50 * MB * n, 30))


def test_nothing_is_concluded_from_standing_still() -> None:
    """While no byte comes (a rate limit, a resolver), no connection is opened for it."""
    assert {8} == set(run(Growth(8, 64, 16, 16), lambda n: 0, 30))


def feed(watch: Watch, rate: float, start_s: float, seconds: float) -> bool:
    """Receive at a rate; return whether the stream was ever called too slow."""
    now, end, slow = start_s, start_s + seconds, False
    while now < end:
        now += 0.5
        slow |= watch.too_slow(int(rate * 0.5), now)
    return slow


def usual() -> Speeds:
    """Eight streams brought 50 MB/s each for a while."""
    speeds = Speeds()
    for _ in range(8):
        assert not feed(Watch(speeds, 0.0), 50 * MB, 0.0, 4 * SPEED_WINDOW_S)
    return speeds


@pytest.mark.parametrize(
    ("size_bytes", "seconds", "crawls"),
    [(1000, 1.0, True), (CRAWL_BYTES_S - 1000, 1.0, True), (CRAWL_BYTES_S, 1.0, False), (1, 0.00001, False)],
)
def test_a_node_that_crawls_is_given_up_whatever_is_usual(size_bytes: int, seconds: float, crawls: bool) -> None:
    """By what it gave in the time that was spent receiving."""
    crawl = Crawl()
    looks = int(2 * CRAWL_S) if seconds == 1.0 else 1000

    assert crawls == any(crawl.is_on(size_bytes, seconds) for _ in range(looks))


def test_a_stream_far_below_the_usual_is_too_slow_after_two_windows() -> None:
    """5 MB/s where others have 50: left; one bad window is not enough."""
    speeds = usual()
    watch = Watch(speeds, 0.0)

    assert not feed(watch, 5 * MB, 0.0, SPEED_WINDOW_S)
    assert feed(watch, 5 * MB, SPEED_WINDOW_S, SPEED_WINDOW_S)


def test_one_slow_moment_is_forgiven() -> None:
    """A window at full speed between two slow ones starts the count again."""
    watch = Watch(usual(), 0.0)
    slow = [feed(watch, rate * MB, n * SPEED_WINDOW_S, SPEED_WINDOW_S) for n, rate in enumerate((5, 50, 5, 50, 5))]

    assert [False] * 5 == slow


def test_what_all_streams_are_is_usual() -> None:
    """A line that gets slower for everybody moves nobody."""
    speeds, began = usual(), 0.0
    watches = [Watch(speeds, began) for _ in range(64)]

    assert not any(feed(watch, 20 * MB, began, 8 * SPEED_WINDOW_S) for watch in watches)


def test_nothing_is_slow_before_anything_is_known() -> None:
    """The first stream of a fetch has nothing to be compared with."""
    assert not feed(Watch(Speeds(), 0.0), 1000, 0.0, 3 * SPEED_WINDOW_S)
