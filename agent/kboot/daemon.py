"""How does a node get ready and stay so? Boot once, tell systemd how it goes, then wait for requests and signals.

One thread works (a boot), the main thread waits in `Inbox.wait`. While a boot makes progress, systemd is asked for more
time and its watchdog is fed; a boot that stands still is not defended, so systemd ends it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal

from kboot.apply.answering import engine_answers
from kboot.apply.cache_push import leaving
from kboot.apply.examine import Examiner
from kboot.apply.joining import Peering
from kboot.apply.monitor import Monitor, Source
from kboot.apply.power_on import with_power_on
from kboot.apply.reclaim import NoticeWatch, drain_engine
from kboot.apply.standby import WarmKeeper, is_live
from kboot.apply.tend import Tender
from kboot.boot import boot, warm_again
from kboot.errors import ActionFailed, ExitStatus, KbootError, SourceError
from kboot.events import Emit, Notice
from kboot.host.clock import monotonic_s, unix_s
from kboot.host.files import make_dirs
from kboot.host.inbox import Asked, Inbox, Signalled, Woken
from kboot.host.locks import lock_file
from kboot.host.myself import give_memory_back
from kboot.host.notify import Notifier, own_notifier
from kboot.host.paths import Paths
from kboot.host.types import Host
from kboot.options import BootOptions, Timing
from kboot.profile.node_config import NodeConfig
from kboot.profile.types import Profile
from kboot.proof import Proof
from kboot.quantities import show_seconds
from kboot.report.progress import PhaseView, Tracker, summarize
from kboot.report.types import BootReport
from kboot.report.verdict import is_transient, judge

Prepare = Callable[[Emit, threading.Event], BootReport]
"""Prepares the node once: emits what happens, ends early when the event is set."""

State = Literal["preparing", "waiting", "ready", "degraded", "stopping"]


@dataclass(slots=True)
class _Work:
    """One boot in its thread. result is set before `inbox.wake()`; it stays None when the thread crashed."""

    thread: threading.Thread
    stop: threading.Event
    tracker: Tracker
    result: BootReport | KbootError | None = None


@dataclass(slots=True)
class Daemon:
    """The waiting half. `serve` returns the process's exit status.

    stands_by: whether the node's engine waits for `kboot live`; asked again and again.
    """

    profile_name: str
    prepare: Prepare
    record: Path
    inbox: Inbox
    notifier: Notifier
    forward: Emit
    timing: Timing = field(default_factory=Timing)
    drain: Callable[[float], str] = drain_engine
    stands_by: Callable[[], bool] = bool  # False
    _notice: str = ""
    _said: str = ""
    _turned: threading.Event = field(default_factory=threading.Event)
    _released: threading.Event = field(default_factory=threading.Event)
    _state: State = "preparing"
    _work: _Work | None = None
    _error: KbootError | None = None
    _phases: tuple[PhaseView, ...] = ()
    _started_unix_s: float = field(default_factory=unix_s)
    _attempt: int = 0
    _failing_since_s: float | None = None
    _retry_at_s: float = 0.0
    _seen_moved: int = -1
    _moved_at_s: float = field(default_factory=monotonic_s)
    _was_ready: bool = False
    _again: bool = False

    def serve(self) -> int:
        """Prepare the node, then react until a signal or a permanent error ends it."""
        self._begin()
        while True:
            messages = self.inbox.wait(self._patience_s())
            self._turned.set()
            if self._notice:
                return self._leave()
            for message in messages:
                match message:
                    case Signalled(name="SIGHUP"):
                        self._reload()
                    case Signalled():
                        return self._stop(message.name)
                    case Asked():
                        message.reply(self.answer(message.request))
                    case Woken():
                        pass
            status = self._advance()
            if status is not None:
                return status

    def leave(self, notice: str) -> None:
        """End in order and soon, because this machine is taken away; from any thread. notice: who says so."""
        self._notice = notice
        self.inbox.wake()

    def release(self) -> None:
        """Be ready before the boot ends: the node is prepared, what is left makes it faster. From any thread."""
        self._released.set()
        self.inbox.wake()

    def is_alive(self, within_s: float) -> bool:
        """Return whether the loop turns; asked from another thread."""
        self._turned.clear()
        self.inbox.wake()
        return self._turned.wait(within_s) or self._state == "stopping"

    def notice(self) -> str:
        """Return what is announced for this machine; empty for nothing."""
        return self._notice

    def answer(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Return the document a client gets for one request."""
        if request.get("ask") == "status":
            return self.status_document()
        error = ActionFailed("unknown-request", f'asked for {request.get("ask")!r}, known is "status"')
        return {"schema": 1, "kind": "error", "error": error.to_json()}

    def status_document(self) -> dict[str, Any]:
        """Return what `kboot status --json` prints for a running daemon."""
        work = self._work  # may be asked from another thread
        phases = work.tracker.phases() if work else self._phases
        wait_s = max(0.0, self._retry_at_s - monotonic_s()) if self._state == "waiting" else None
        return {
            "schema": 1,
            "kind": "status",
            "profile": self.profile_name,
            "state": "standby" if self._state == "ready" and self.stands_by() else self._state,
            "text": self._text(),
            "reclaim": self._notice,
            "started_unix_s": self._started_unix_s,
            "attempt": self._attempt,
            "retry_in_s": wait_s,
            "record": str(self.record),
            "error": self._error.to_json() if self._error else None,
            "phases": [p.to_json() for p in phases],
        }

    def _begin(self) -> None:
        """Start a boot in its own thread."""
        self._attempt += 1
        self._state = "preparing"
        self._released.clear()
        self._seen_moved = -1
        stop, tracker = threading.Event(), Tracker(self.forward)
        work = _Work(threading.Thread(target=lambda: self._run(work), name="boot", daemon=True), stop, tracker)
        self._work = work
        self._beat()
        work.thread.start()

    def _run(self, work: _Work) -> None:
        try:
            work.result = self.prepare(work.tracker.emit, work.stop)
        except KbootError as exc:
            work.result = exc
        finally:
            self.inbox.wake()

    def _advance(self) -> int | None:
        """Look at the boot and the clock; return a status when the process must end."""
        if self._work and not self._work.thread.is_alive():
            return self._finish(self._work)
        if self._released.is_set() and self._state == "preparing":
            self._settle(None, "ready")
        elif self._state == "waiting" and monotonic_s() >= self._retry_at_s:
            self._begin()
        else:
            self._beat()
        return None

    def _finish(self, work: _Work) -> int | None:
        self._work, self._phases = None, work.tracker.phases()
        error = judge(work.result, self.record.exists())
        degraded = isinstance(work.result, BootReport) and work.result.status == "degraded"
        if error is None:
            self._settle(None, "degraded" if degraded else "ready")
        elif is_transient(error) and not self._gave_up():
            self._wait(error)
        elif self._was_ready:
            self._settle(error, "degraded")  # the record of the last good boot still holds; serving goes on
        else:
            self._error = error
            self.notifier.stopping(f"{error.code}: {error.message}")
            raise error
        if self._again and self._state != "waiting":
            self._again = False
            self._reload()
        return None

    def _settle(self, error: KbootError | None, state: Literal["ready", "degraded"]) -> None:
        say = self.notifier.status if self._state == "ready" else self.notifier.ready  # released: once is enough
        self._state, self._error, self._was_ready = state, error, True
        self._attempt, self._failing_since_s = 0, None
        give_memory_back()  # from here on it only waits
        self._said = self._text()
        say(self._said)

    def _wait(self, error: KbootError) -> None:
        """Sleep, longer each time, before the next try; to systemd that is honest work, for a bounded time."""
        pause_s = min(self.timing.retry_max_s, self.timing.retry_s * 2 ** (self._attempt - 1))
        if isinstance(error, SourceError):
            self.forward(Notice("boot.waits", f"{error.code}: {error.message}; next try in {show_seconds(pause_s)}"))
        self._state, self._error = "waiting", error
        self._retry_at_s = monotonic_s() + pause_s
        self.notifier.extend(pause_s + self.timing.stall_s)
        self._tell()

    def _gave_up(self) -> bool:
        now_s = monotonic_s()
        if self._failing_since_s is None:
            self._failing_since_s = now_s
        return now_s - self._failing_since_s >= self.timing.give_up_s

    def _reload(self) -> None:
        """Read the profile again and boot again; on a node that is already right that changes nothing."""
        if self._work:
            self._again = True
            return
        if self._was_ready:
            self.notifier.reloading("reading the profile again")
        self._begin()

    def _stop(self, signal_name: str) -> int:
        self._state = "stopping"
        self.notifier.stopping(f"stopping on {signal_name}")
        if self._work:
            self._work.stop.set()
            self.notifier.extend(self.timing.stop_s + 5.0)
            self._work.thread.join(self.timing.stop_s)
        return ExitStatus.INTERRUPTED if signal_name == "SIGINT" else ExitStatus.DONE

    def _leave(self) -> int:
        """Give up serving and fetching at once: both end side by side, and what is on the disk stays whole."""
        deadline_s = monotonic_s() + self.timing.leave_s
        self._state = "stopping"
        self.notifier.stopping(f"this machine is taken away: {self._notice}")
        threads = [threading.Thread(target=self._drain, name="drain", daemon=True)]
        threads[0].start()
        if self._work:
            self._work.stop.set()
            threads.append(self._work.thread)
        while any(t.is_alive() for t in threads) and (left_s := deadline_s - monotonic_s()) > 0:
            for message in self.inbox.wait(min(left_s, self.timing.tick_s)):
                if isinstance(message, Asked):
                    message.reply(self.answer(message.request))
        return ExitStatus.DONE

    def _drain(self) -> None:
        self.forward(Notice("engine.drained", self.drain(self.timing.leave_s)))
        self.inbox.wake()

    def _beat(self) -> None:
        """Tell systemd that we live, as far as it is true."""
        now_s = monotonic_s()
        if not self._work or self._state == "ready":
            self.notifier.watchdog()
            self._tell()
            return
        moved = self._work.tracker.moved
        if moved != self._seen_moved:
            self._seen_moved, self._moved_at_s = moved, now_s
            self.notifier.extend(self.timing.stall_s)
            self._said = ""
            self._tell()
        if now_s - self._moved_at_s < self.timing.stall_s:
            self.notifier.watchdog()

    def _tell(self) -> None:
        """Say where we stand, if that was not what was said last."""
        text = self._text()
        if text != self._said:
            self._said = text
            self.notifier.status(text)

    def _patience_s(self) -> float:
        """Return how long nothing needs to be done: an idle daemon wakes for the watchdog only."""
        limits = [self.notifier.watchdog_s / 2 if self.notifier.watchdog_s else 3600.0]
        if self._work:
            limits.append(self.timing.tick_s)
        if self._state == "waiting":
            limits.append(max(0.0, self._retry_at_s - monotonic_s()))
        return min(limits)

    def _text(self) -> str:
        match self._state:
            case "preparing":
                work = self._work
                return summarize(work.tracker.phases() if work else ())
            case "waiting":
                return f"waiting to try again: {self._error.message if self._error else ''}"
            case "ready" if self.stands_by():
                return f"standby: {self.profile_name} is warm, not serving; `kboot live` starts its engine"
            case "ready":
                return f"ready: {self.profile_name} is prepared"
            case "degraded":
                word = "standby" if self.stands_by() else "ready"
                return f"{word}, degraded: {self._error.message if self._error else 'see `kboot timeline`'}"
            case "stopping":
                return f"stopping: this machine is taken away: {self._notice}" if self._notice else "stopping"


def run_daemon(
    profile_name: str,
    load: Callable[[], Profile],
    host: Host,
    paths: Paths,
    emit: Emit,
    options: BootOptions,
    config: NodeConfig,
    doctor: Sequence[str],
) -> int:
    """Run the daemon in this process until it is told to stop; return its exit status.

    load: reads the profile before each boot, so that SIGHUP sees what was edited. config: metrics and notices.
    doctor: the command line that keeps what doctor finds at this boot.

    Raises:
        KbootError: preparing the node failed for good; its status is the process's.
        ActionFailed: another daemon runs with these paths ("locked"), or its socket cannot be made.
    """
    make_dirs(paths.runtime)
    with lock_file(paths.runtime / "daemon.lock", timeout_s=0.0):
        inbox, peering, proof = Inbox(paths.socket), Peering(paths), Proof(host, paths, emit)
        examiner = Examiner(doctor, emit, partial(engine_answers, host, paths))

        def prepare(tell: Emit, stop: threading.Event) -> BootReport:
            on_prepared = None if daemon.stands_by() else daemon.release  # one that stands by is to be warm
            once = partial(boot, host=host, paths=paths, options=options, emit=tell, stop=stop, peering=peering)
            done = proof.after(load(), partial(once, on_prepared=on_prepared))
            if done.status in ("done", "degraded"):
                examiner.offer()
            return with_power_on(done, paths, emit)

        try:
            daemon = Daemon(
                profile_name=profile_name,
                prepare=prepare,
                record=paths.handoff,
                inbox=inbox,
                notifier=own_notifier(),
                forward=emit,
                drain=leaving(load, paths, len(host.affinity()), host.environ()),
                stands_by=lambda: config.standby and not is_live(paths, host),
            )
            source = Source(daemon.status_document, daemon.is_alive, daemon.notice)
            halt = threading.Event()
            warm_all = partial(warm_again, host=host, paths=paths, emit=emit, stop=halt)
            helpers = (
                *(proof, examiner, Tender(host, paths, emit)),
                WarmKeeper(daemon.stands_by, lambda: warm_all(load()), emit),
                Monitor(source, host, paths, emit, config.metrics_port, config.metrics_file),
                NoticeWatch(config.reclaim, emit, daemon.leave),
            )
            with ExitStack() as running:
                for helper in helpers:
                    helper.begin()
                    running.callback(helper.end)
                running.callback(halt.set)
                return daemon.serve()
        finally:
            peering.end()
            inbox.close()
