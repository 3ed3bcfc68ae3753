"""Who receives what: pure bookkeeping, no bytes."""

from __future__ import annotations

import threading
from itertools import pairwise
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kboot.apply.fetch_work import MAX_PIECE_BYTES, MIN_PIECE_BYTES, Claim, Job, Pool, jobs_of
from kboot.checkpoint import RemoteFile
from kboot.errors import ActionFailed, VerificationFailed
from kboot.plan.types import FetchFile
from kboot.store.partial import Partial

MIB = 1 << 20
ERROR = ActionFailed("x", "y")


def action(path: str, size: int, blob: str = "") -> FetchFile:
    return FetchFile(RemoteFile(path, size, blob or path, None), 0, "")


def jobs(*sizes: int) -> tuple[Job, ...]:
    return jobs_of([action(f"f{n}", size) for n, size in enumerate(sizes)], Path)


def pool_of(made: tuple[Job, ...], streams: int = 4) -> Pool:
    return Pool(made, streams, threading.Event())


@pytest.fixture
def partial(tmp_path: Path) -> Partial:
    return Partial(tmp_path / "x.part", RemoteFile("x", 1, "x", None))


def open_one(pool: Pool, partial: Partial, *missing: tuple[int, int]) -> Job:
    job = pool.take()
    assert isinstance(job, Job)
    pool.opened(job, partial, missing or ((0, job.action.file.size_bytes),))
    return job


def claim_of(pool: Pool) -> Claim:
    claim = pool.take()
    assert isinstance(claim, Claim)
    return claim


def slow(claim: Claim, seconds: float = 10.0) -> None:
    """Make a claim look as if it had been received for a while, and had got one MiB."""
    claim.since_s -= seconds
    claim.position += MIB


def test_one_content_is_one_job() -> None:
    """Paths that share a blob share a job, in the order they were asked for."""
    made = jobs_of([action("a", 5, "one"), action("b", 6, "two"), action("c", 5, "one")], Path)

    assert [["a", "c"], ["b"]] == [[a.file.path for a in job.actions] for job in made]


def test_the_largest_file_is_opened_first(partial: Partial) -> None:
    """What takes longest begins first, so that nothing large is left at the end."""
    pool = pool_of(jobs(10, 30, 20))

    assert ["f1", "f2", "f0"] == [_open_path(pool, partial) for _ in range(3)]


def _open_path(pool: Pool, partial: Partial) -> str:
    job = open_one(pool, partial)
    assert claim_of(pool).job is job
    return job.action.file.path


def test_whoever_opens_a_file_receives_it(partial: Partial) -> None:
    """An open file with bytes to fetch comes before the next file: streams do not open what they cannot feed."""
    pool = pool_of(jobs(10, 30))
    job = open_one(pool, partial)

    assert (job, 0, 30) == ((claim := claim_of(pool)).job, claim.start, claim.end)


def test_a_quick_file_is_not_cut(partial: Partial) -> None:
    """A stream that would be done within a second gets no help."""
    pool = pool_of(jobs(100 * MIB))
    open_one(pool, partial)
    claim = claim_of(pool)
    claim.since_s -= 1.0
    claim.position += 90 * MIB
    pool._cut()

    assert (100 * MIB, []) == (claim.end, claim.job.free)


def test_a_slow_file_is_shared(partial: Partial) -> None:
    """Idle streams take the far part of what would take longest, piece after piece; the front stays with its stream."""
    pool = pool_of(jobs(1000 * MIB))
    open_one(pool, partial)
    front = claim_of(pool)
    slow(front)
    second, third = claim_of(pool), claim_of(pool)

    assert front.end == second.start and second.end == third.start
    assert MIN_PIECE_BYTES <= second.end - second.start <= MAX_PIECE_BYTES
    assert 1000 * MIB == front.job.left_bytes + MIB


def test_a_server_without_ranges_is_not_shared(partial: Partial) -> None:
    """Where a range costs the whole file nobody helps."""
    pool = pool_of(jobs(1000 * MIB))
    open_one(pool, partial).cuttable = False
    front = claim_of(pool)
    slow(front)
    pool._cut()

    assert 1000 * MIB == front.end


def test_a_claim_given_back_is_taken_by_the_next(partial: Partial) -> None:
    """What a stream leaves unreceived is free again."""
    pool = pool_of(jobs(100))
    open_one(pool, partial)
    claim = claim_of(pool)
    pool.advance(claim, 40)

    assert "more" == pool.leave(claim)
    assert (40, 100) == ((again := claim_of(pool)).start, again.end)


def test_the_last_one_out_proves(partial: Partial) -> None:
    """A file is whole when nothing is free and nobody receives."""
    pool = pool_of(jobs(100))
    open_one(pool, partial, (0, 10), (20, 100))
    one, other = claim_of(pool), claim_of(pool)
    pool.advance(other, 80)
    pool.advance(one, 10)

    assert ["more", "whole"] == [pool.leave(other), pool.leave(one)]


def test_a_failed_file_is_left_by_all(partial: Partial) -> None:
    """After the first error nothing of the file is handed out, and the last stream closes it."""
    pool = pool_of(jobs(100))
    job = open_one(pool, partial, (0, 10), (20, 100), (150, 160))
    one, other = claim_of(pool), claim_of(pool)
    pool.fail(job, ERROR)
    pool.fail(job, ActionFailed("later", "z"))

    assert ["more", "broken"] == [pool.leave(one), pool.leave(other)]
    assert ERROR is job.error and job.is_lost
    pool.settle(job, "failed")
    assert pool.settled and None is pool.take()


def test_a_spoiled_file_begins_again(partial: Partial) -> None:
    """When the disk lost bytes everybody leaves, and the whole range is free afterwards."""
    pool = pool_of(jobs(100))
    job = open_one(pool, partial, (50, 100))
    claim = claim_of(pool)
    pool.spoil(job, VerificationFailed("partial-damaged", "y"))

    assert "spoiled" == pool.leave(claim)
    pool.again(job)
    assert (0, 100) == ((again := claim_of(pool)).start, again.end)


def test_nobody_gets_work_after_the_stop() -> None:
    """A stopped pool hands out nothing, though there is work."""
    stop = threading.Event()
    stop.set()

    assert None is Pool(jobs(10), 1, stop).take()


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 400), st.integers(1, 8), st.randoms(use_true_random=False))
def test_every_byte_is_received_once(
    tmp_path_factory: pytest.TempPathFactory, size_mib: int, streams: int, random: Random
) -> None:
    """However slow streams are and whenever they give up, the claims tile the file: no byte twice, none left out."""
    pool = pool_of(jobs(size_mib * MIB), streams)
    partial = Partial(tmp_path_factory.mktemp("p") / "x", RemoteFile("x", 1, "x", None))
    job = open_one(pool, partial)
    received: list[tuple[int, int]] = []
    active: list[Claim] = []
    while job.free or active:
        if job.free and len(active) < streams:
            active.append(claim_of(pool))
        claim = random.choice(active)
        claim.since_s -= 10.0
        pool._cut()
        step = min(claim.end - claim.position, random.choice([MIB, 5 * MIB, 64 * MIB]))
        received.append((claim.position, claim.position + step))
        pool.advance(claim, step)
        if claim.position == claim.end or random.random() < 0.2:
            active.remove(claim)
            pool.leave(claim)
    partial.close()

    edges = sorted(received)
    assert 0 == edges[0][0] and size_mib * MIB == edges[-1][1]
    assert all(one[1] == other[0] for one, other in pairwise(edges))


def test_a_stream_too_many_gets_no_work(partial: Partial) -> None:
    """Of three streams two are to work: the third waits until it is wanted, and ends when all is settled."""
    pool = pool_of(jobs(10, 20, 30), streams=2)
    assert isinstance(pool.take(0), Job) and isinstance(pool.take(1), Job)
    got: list[object] = []
    third = threading.Thread(target=lambda: got.append(pool.take(2)))
    third.start()
    third.join(0.4)
    assert [] == got
    pool.let_work(3)
    third.join(30)

    assert ["f0"] == [job.action.file.path for job in got if isinstance(job, Job)]
