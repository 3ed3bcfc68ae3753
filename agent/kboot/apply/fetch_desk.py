"""Which source is asked for which file next, and how long does everybody wait before asking?"""

from __future__ import annotations

import random
import threading
from collections.abc import Sequence

from kboot.apply.fetch_work import Claim, Job
from kboot.errors import KbootError, SourceError
from kboot.events import Emit, FileTrouble, Notice
from kboot.host.clock import boot_monotonic_s, monotonic_s
from kboot.sources.patience import LIMITED_S, NOT_YET_WAIT_S, SHORTEST_WAIT_S, back_off_s, not_yet_s
from kboot.sources.types import NotYet, RateLimited, Source

# What a source says once for all of a repository: asking it for the next file would be asking in vain.
_FOR_ALL = frozenset(
    {
        "auth",
        "auth-gated",
        "certificate-refused",
        "ca-file-missing",
        "ca-file-not-valid",
        "host-unknown",
        "proxy-not-supported",
        "proxy-not-valid",
        "repo-disabled",
        "repo-not-found",
        "revision-gone",
        "revision-not-found",
    }
)


_WRONG_FILES = 2  # one may be a bad copy of its own; from so many on, a source is taken for one of bad copies


class Desk:
    """What is known of the sources during one fetch. For any thread.

    attempts: tries without progress on one range before a source is given up for the file.
    """

    def __init__(self, sources: Sequence[Source], attempts: int, emit: Emit, stop: threading.Event) -> None:
        self._sources = tuple(sources)
        self._attempts = attempts
        self._emit = emit
        self._stop = stop
        self._lock = threading.Lock()
        self._wrong: dict[str, set[Job]] = {}  # by source: what it delivered wrong
        self._closed: dict[str, SourceError] = {}  # for every file
        self._given_up: dict[tuple[Job, str], SourceError] = {}
        self._paused_until_s: dict[str, float] = {}
        self._told_until_s: dict[str, float] = {}  # of these, what the source itself said to this node
        self._limited_left_s = {source.name: LIMITED_S for source in sources}
        self._not_yet_until_s = monotonic_s() + not_yet_s(boot_monotonic_s())

    @property
    def rounds(self) -> int:
        """How often a whole file may come wrong: once from each source, and once more."""
        return len(self._sources) + 1

    def pick(self, job: Job, slow: Sequence[str] = ()) -> Source:
        """Return the source to ask for a file now.

        slow: names of sources that were too slow for a range of it, as often as they were.

        Raises:
            SourceError: none is left; the first cause, with what the others said.
        """
        with self._lock:
            for source in sorted(self._sources, key=lambda s: (*self._demotion(s, job), slow.count(s.name))):
                if source.name not in self._closed and (job, source.name) not in self._given_up:
                    return source
            raise self._none_left(job)

    def wait(self, source: Source) -> bool:
        """Wait while the source asked everybody to; False when kboot was told to stop meanwhile."""
        while (left_s := self._paused_until_s.get(source.name, 0.0) - monotonic_s()) > 0:
            if self._stop.wait(left_s):
                return False
        return not self._stop.is_set()

    def trouble(self, claim: Claim, source: Source, error: SourceError, progress: bool) -> None:
        """Take in that a try failed, and wait before the next. progress: the try brought bytes worth having."""
        path = claim.job.action.file.path
        self._emit(FileTrouble("fetch", path, error.code, f"{error.message} ({source.name})", final=False))
        with self._lock:
            wait_s, notice = self._weigh(claim, source, error, progress)
        if notice:
            self._emit(notice)
        if wait_s > 0:
            self._stop.wait(wait_s)

    def paused(self) -> dict[str, float]:
        """Return the sources that asked this node to wait, and for how many seconds more."""
        now = monotonic_s()
        with self._lock:
            return {name: until_s - now for name, until_s in self._told_until_s.items() if until_s > now}

    def pause(self, name: str, for_s: float) -> None:
        """Let nobody ask a source for so long, because it said so to another node of this address."""
        with self._lock:
            if name in self._limited_left_s and 0 < for_s <= LIMITED_S:
                self._paused_until_s[name] = max(self._paused_until_s.get(name, 0.0), monotonic_s() + for_s)

    def wrong_bytes(self, job: Job, source: str) -> None:
        """Take in that a source alone delivered wrong bytes: it is asked last for this file, after a second for all."""
        with self._lock:
            wrong = self._wrong.setdefault(source, set())
            is_new = job not in wrong and len(wrong) < _WRONG_FILES
            wrong.add(job)
            whole = len(wrong) >= _WRONG_FILES
        if is_new:
            path, files = job.action.file.path, "every file" if whole else "this file"
            text = f"{source} delivered wrong bytes for {path}: other sources are asked first for {files}"
            self._emit(Notice("source.demoted", text))

    def _demotion(self, source: Source, job: Job) -> tuple[bool, bool]:
        """Return how far back a source stands; where all gave two files wrong, who gave this one wrong is last."""
        wrong = self._wrong.get(source.name, ())
        return job in wrong, len(wrong) >= _WRONG_FILES

    def _weigh(self, claim: Claim, source: Source, error: SourceError, progress: bool) -> tuple[float, Notice | None]:
        """Return how long this stream waits, and what an operator should know. The lock is held."""
        job, name, now = claim.job, source.name, monotonic_s()
        if error.code in _FOR_ALL:
            notice = None if name in self._closed else Notice("source.refused", f"{name} is not asked again: {error}")
            self._closed.setdefault(name, error)
            return 0.0, notice
        if isinstance(error, RateLimited) and error.retry_after_s is not None:
            return 0.0, self._pause(job, name, error, error.retry_after_s + SHORTEST_WAIT_S, "source.limited")
        if isinstance(error, NotYet) and now < self._not_yet_until_s:
            return 0.0, self._pause(job, name, error, NOT_YET_WAIT_S, "network.waiting")
        failures = claim.failures[name] = 1 if progress else claim.failures.get(name, 0) + 1
        if not error.retry or failures >= self._attempts:
            self._given_up[job, name] = error
            return 0.0, None
        return 0.0 if progress else back_off_s(failures, random.random()), None

    def _pause(self, job: Job, name: str, error: SourceError, wait_s: float, event: str) -> Notice | None:
        """Let nobody ask a source for a while; a pause that is on already counts once."""
        now = monotonic_s()
        until_s, before_s = now + wait_s, self._paused_until_s.get(name, 0.0)
        if until_s <= before_s + SHORTEST_WAIT_S and before_s > now:
            return None
        if event == "source.limited":
            self._limited_left_s[name] -= until_s - max(now, before_s)
            if self._limited_left_s[name] < 0:
                self._given_up[job, name] = error
                return None
        self._paused_until_s[name] = until_s
        if event == "source.limited":
            self._told_until_s[name] = until_s
        return Notice(event, f"{error.message}: {name} is asked again in {wait_s:.0f} s")

    def _none_left(self, job: Job) -> SourceError:
        said = [
            (source.name, self._closed.get(source.name) or self._given_up.get((job, source.name)))
            for source in self._sources
        ]
        errors = [(name, error) for name, error in said if error is not None]
        if not errors:
            return SourceError(
                "no-source",
                f"no source may be asked for {job.action.file.path}",
                hint="run it without --offline, or name a source in checkpoint.sources",
            )
        (name, first), others = errors[0], errors[1:]
        where = (f"{job.action.file.path} from {name}", *first.where, *(f"{n}: {e.message}" for n, e in others))
        return SourceError(first.code, first.message, where=where, hint=first.hint)


def wrong_twice(job: Job, error: KbootError) -> KbootError:
    """Return the error of a file that came wrong from everybody asked, naming them."""
    error.where = (f"from {job.source}, try {job.rounds} of {job.rounds}", *error.where)
    error.hint = error.hint or "compare the source's copy with the Hub's; kboot kept none of these bytes"
    return error
