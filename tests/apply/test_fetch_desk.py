"""Whom to ask next: decisions only, no bytes."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from kboot.apply.fetch_desk import Desk
from kboot.apply.fetch_work import Claim, Job, jobs_of
from kboot.checkpoint import RemoteFile
from kboot.errors import SourceError
from kboot.events import Event, FileTrouble, Notice
from kboot.host.clock import monotonic_s
from kboot.plan.types import FetchFile
from kboot.sources.local import Local
from kboot.sources.types import NotYet, RateLimited

HUB, MIRROR = Local("/hub"), Local("/mirror")
BROKEN = SourceError("source-failing", "503", retry=True)
GONE = SourceError("file-not-found", "404")
AUTH = SourceError("auth", "401: the token is not accepted", hint="make one")


class At:
    """A desk with two sources and one file, and what it said."""

    def __init__(self, attempts: int = 2) -> None:
        self.said: list[Event] = []
        self.stop = threading.Event()
        self.desk = Desk((HUB, MIRROR), attempts, self.said.append, self.stop)
        self.job, self.other = jobs_of([_action("a"), _action("b")], Path)
        self.claim = Claim(self.job, 0, 5, 0, 0.0)

    @property
    def notices(self) -> list[str]:
        return [e.event for e in self.said if isinstance(e, Notice)]


def _action(path: str) -> FetchFile:
    return FetchFile(RemoteFile(path, 5, path, None), 0, "")


@pytest.fixture
def at() -> At:
    return At()


def test_sources_are_asked_in_order(at: At) -> None:
    """The first one, as long as nothing speaks against it."""
    assert HUB is at.desk.pick(at.job)


def test_a_file_that_is_not_there_comes_from_the_next(at: At) -> None:
    """What will not pass moves this file, and only this file, to the next source."""
    at.desk.trouble(at.claim, HUB, GONE, progress=False)

    assert MIRROR is at.desk.pick(at.job)
    assert HUB is at.desk.pick(at.other)


def test_tries_without_progress_are_counted(at: At) -> None:
    """After `attempts` of them the next source is asked; a try that brought bytes begins the count anew."""
    at.desk.trouble(at.claim, HUB, BROKEN, progress=False)
    at.desk.trouble(at.claim, HUB, BROKEN, progress=True)
    assert HUB is at.desk.pick(at.job)
    at.desk.trouble(at.claim, HUB, BROKEN, progress=False)

    assert MIRROR is at.desk.pick(at.job)
    assert ["source-failing"] * 3 == [e.code for e in at.said if isinstance(e, FileTrouble)]


def test_streams_on_one_file_fail_each_for_itself(at: At) -> None:
    """One bad second that hits every stream of a file once is one failed try for each, not several for the file."""
    for start in range(4):
        at.desk.trouble(Claim(at.job, start, 5, start, 0.0), HUB, BROKEN, progress=False)

    assert HUB is at.desk.pick(at.job)


def test_a_refused_token_closes_the_source_for_all(at: At) -> None:
    """What is true of the repository is not asked once per file, and is told once."""
    at.desk.trouble(at.claim, HUB, AUTH, progress=False)
    at.desk.trouble(Claim(at.other, 0, 5, 0, 0.0), HUB, AUTH, progress=False)

    assert [MIRROR, MIRROR] == [at.desk.pick(at.job), at.desk.pick(at.other)]
    assert ["source.refused"] == at.notices


def test_the_error_of_a_file_is_its_first_cause(at: At) -> None:
    """B027: the preferred source's refusal is the error, the others stand below it."""
    at.desk.trouble(at.claim, MIRROR, GONE, progress=False)
    at.desk.trouble(at.claim, HUB, AUTH, progress=False)

    with pytest.raises(SourceError) as caught:
        at.desk.pick(at.job)
    assert ("auth", "make one") == (caught.value.code, caught.value.hint)
    assert (f"a from {HUB.name}", f"{MIRROR.name}: 404") == caught.value.where


def test_a_rate_limit_holds_everybody_and_is_no_failed_try(at: At) -> None:
    """All streams wait for the source that said so; the file stays with it."""
    limited = RateLimited("rate-limited", "429", retry_after_s=30.0)
    before = monotonic_s()
    for _ in range(5):
        at.desk.trouble(at.claim, HUB, limited, progress=False)

    assert HUB is at.desk.pick(at.job)
    assert ["source.limited"] == at.notices
    at.stop.set()
    assert not at.desk.wait(HUB)
    assert 30.0 <= at.desk._paused_until_s[HUB.name] - before
    assert MIRROR.name not in at.desk._paused_until_s


def test_a_rate_limit_is_told_and_what_others_were_told_holds(at: At) -> None:
    """What this node heard itself is told; what it heard of others it heeds, and does not pass on without end."""
    limit = RateLimited("rate-limited", "429", retry_after_s=30.0)
    at.desk.trouble(at.claim, HUB, limit, progress=False)
    at.desk.pause(MIRROR.name, 40.0)
    at.desk.pause("not asked here", 40.0)
    at.desk.pause(HUB.name, 1e9)
    at.stop.set()

    assert [HUB.name] == list(at.desk.paused())
    assert 0 < at.desk.paused()[HUB.name] <= 31
    assert not at.desk.wait(MIRROR), "told to stop while it waits"


def test_a_rate_limit_without_end_is_given_up(at: At) -> None:
    """More than ten minutes of waiting in all, and the next source is asked."""
    at.desk.trouble(at.claim, HUB, RateLimited("rate-limited", "429", retry_after_s=3600.0), progress=False)

    assert MIRROR is at.desk.pick(at.job)


def test_a_network_that_is_not_up_is_waited_for(at: At) -> None:
    """B132: no name resolution is no failed try, however often."""
    for _ in range(5):
        at.desk.trouble(at.claim, HUB, NotYet("name-not-resolved", "EAI_AGAIN", retry=True), progress=False)

    assert HUB is at.desk.pick(at.job)
    assert ["network.waiting"] == at.notices


def test_a_source_is_asked_last_for_a_file_that_it_gave_wrong(at: At) -> None:
    """One bad copy says nothing of the others; it is named once, and still there when nobody else has the file."""
    at.desk.wrong_bytes(at.job, HUB.name)
    at.desk.wrong_bytes(at.job, HUB.name)
    assert [MIRROR, HUB] == [at.desk.pick(at.job), at.desk.pick(at.other)]
    at.desk.trouble(at.claim, MIRROR, GONE, progress=False)

    assert HUB is at.desk.pick(at.job)
    assert ["source.demoted"] == at.notices


def test_a_source_that_gave_two_files_wrong_is_asked_last_for_all(at: At) -> None:
    """Named for each of the two, and no more after that."""
    third, fourth = jobs_of([_action("c"), _action("d")], Path)
    for job in (at.job, at.other, third):
        at.desk.wrong_bytes(job, HUB.name)

    assert MIRROR is at.desk.pick(fourth)
    assert ["source.demoted"] * 2 == at.notices


def test_who_gave_a_file_wrong_is_asked_after_others_that_gave_other_files_wrong(at: At) -> None:
    """Where every source is demoted for all, the next try of a file is still not for the one that gave it wrong."""
    third, fourth = jobs_of([_action("c"), _action("d")], Path)
    for job, source in ((at.job, HUB), (at.other, HUB), (third, MIRROR), (fourth, MIRROR)):
        at.desk.wrong_bytes(job, source.name)

    assert [MIRROR, MIRROR, HUB, HUB] == [at.desk.pick(job) for job in (at.job, at.other, third, fourth)]


def test_no_source_at_all_is_said() -> None:
    """A profile without sources gives an error, not a loop."""
    job: Job = At().job
    with pytest.raises(SourceError) as caught:
        Desk((), 1, lambda _e: None, threading.Event()).pick(job)

    assert "no-source" == caught.value.code


def test_a_source_that_is_slow_for_a_range_is_asked_later_for_it(at: At) -> None:
    """Its rest goes to the other source; were both slow, to the one that was less often."""
    assert MIRROR is at.desk.pick(at.job, [HUB.name])
    assert HUB is at.desk.pick(at.job, [HUB.name, MIRROR.name])
    assert MIRROR is at.desk.pick(at.job, [HUB.name, MIRROR.name, HUB.name])
