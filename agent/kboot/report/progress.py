"""How far is the running boot, how fast does it go, and when will it serve? Follows its events."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Literal

from kboot.checks.words import count
from kboot.events import (
    Emit,
    EngineLine,
    Event,
    FileDone,
    FileProgress,
    FileTrouble,
    Notice,
    PhaseFinished,
    PhaseStarted,
)
from kboot.host.clock import monotonic_s
from kboot.quantities import show_bytes
from kboot.values import dataclass

Goal = Literal["serving", "prepared", "done"]
"""What a time to come ends with. prepared: an engine has not started then, or how long it takes is not known."""

RATE_WINDOW_S = 10.0
"""Seconds over which the rate is taken: longer than a stall of one stream, short enough to follow a change."""
_WAITS = {"meet": "once the other nodes are ready", "standby": "once `kboot live` is said"}
"""Phases whose end others decide, and what that end is: how long they were in earlier boots says nothing."""
_SAMPLE_S = 0.2
_KEPT_TROUBLES = 200


@dataclass(frozen=True, slots=True)
class PhaseView:
    """How far one phase is. status: running, or what PhaseFinished said. files: actions of the phase."""

    name: str
    status: str
    total_bytes: int
    done_bytes: int = 0
    files_done: int = 0
    files: int = 0
    seconds: float = 0.0

    def to_json(self) -> dict[str, object]:
        """Return what a status document has of it."""
        return {
            "name": self.name,
            "status": self.status,
            "done_bytes": self.done_bytes,
            "total_bytes": self.total_bytes,
            "files_done": self.files_done,
            "seconds": round(self.seconds, 3),
        }


@dataclass(frozen=True, slots=True)
class FileView:
    """One file that is being worked on."""

    path: str
    done_bytes: int
    total_bytes: int


@dataclass(frozen=True, slots=True)
class ProgressView:
    """The boot at one moment.

    active: files under way, those nearest their end first. failed: final troubles, in order. retrying: files whose
    last try failed and that are being tried again. rate_bytes_s: over RATE_WINDOW_S.
    eta_s: until the run is where eta_of says, None where nothing supports a number; eta_basis says what it rests on.
    """

    phases: tuple[PhaseView, ...]
    active: tuple[FileView, ...]
    failed: tuple[FileTrouble, ...]
    retrying: tuple[FileTrouble, ...]
    rate_bytes_s: float
    eta_s: float | None
    eta_basis: str
    eta_of: Goal = "serving"

    @property
    def running(self) -> tuple[PhaseView, ...]:
        """Phases under way, the one that moves most bytes first."""
        return tuple(sorted((p for p in self.phases if p.status == "running"), key=lambda p: -p.total_bytes))


@dataclass(frozen=True, slots=True)
class History:
    """Median seconds of each phase in earlier boots, and how many boots those were."""

    median_s: Mapping[str, float] = field(default_factory=dict)
    boots: int = 0


@dataclass(slots=True)
class _Phase:
    started_s: float
    files: int
    total_bytes: int
    status: str = "running"
    files_done: int = 0
    moved_bytes: int = 0
    seconds: float = 0.0


@dataclass(slots=True)
class _File:
    base_bytes: int
    done_bytes: int
    total_bytes: int


class Tracker:
    """Follows the events of a boot; emit() is called from its threads, everything else from any.

    clock: seconds on a clock that never goes back.
    """

    def __init__(self, forward: Emit, history: History | None = None, clock: Callable[[], float] = monotonic_s) -> None:
        self._forward = forward
        self._history = history or History()
        self._clock = clock
        self._lock = threading.Lock()
        self._phases: dict[str, _Phase] = {}
        self._files: dict[tuple[str, str], _File] = {}
        self._troubles: dict[tuple[str, str], FileTrouble] = {}
        self._samples: deque[tuple[float, int]] = deque()
        self._moved = 0

    def emit(self, event: Event) -> None:
        """Take note of an event and pass it on."""
        now_s = self._clock()
        with self._lock:
            self._moved += self._note(event, now_s)
            self._sample(now_s)
        self._forward(event)

    @property
    def moved(self) -> int:
        """A number that grows whenever there was progress."""
        with self._lock:
            return self._moved

    def phases(self) -> tuple[PhaseView, ...]:
        """Return every phase begun so far, with the bytes of unfinished files counted."""
        with self._lock:
            return self._views(self._clock())

    def view(self) -> ProgressView:
        """Return where the boot stands."""
        now_s = self._clock()
        with self._lock:
            self._sample(now_s)
            phases, rate = self._views(now_s), self._rate()
            active, troubles = self._active(), tuple(self._troubles.values())
        failed = tuple(t for t in troubles if t.final)
        eta_s, basis = estimate(phases, rate, self._history)
        retrying, goal = tuple(t for t in troubles if not t.final), _goal(phases, self._history)
        return ProgressView(phases, active, failed, retrying, rate, eta_s, basis, goal)

    def _note(self, event: Event, now_s: float) -> int:
        """Return 1 for progress. The same bytes again, a failed try and a mere notice are none."""
        match event:
            case PhaseStarted():
                self._phases[event.phase] = _Phase(now_s, event.actions, event.total_bytes)
                return 1
            case PhaseFinished():
                phase = self._phase(event.phase, now_s)
                phase.status, phase.seconds, phase.moved_bytes = event.status, event.seconds, event.bytes_done
                self._files = {key: f for key, f in self._files.items() if key[0] != event.phase}
                return 1
            case FileProgress():
                if not event.path:
                    self._phase(event.phase, now_s).files_done = event.files
                return int(self._move(event))
            case FileDone():
                self._files.pop((event.phase, event.path), None)
                self._troubles.pop((event.phase, event.path), None)
                phase = self._phase(event.phase, now_s)
                phase.files_done += 1
                phase.moved_bytes += max(0, event.size_bytes - event.reused_bytes)
                return 1
            case FileTrouble():
                self._keep_trouble(event)
                return 0
            case Notice():
                return 0
            case EngineLine():
                return 1

    def _phase(self, name: str, now_s: float) -> _Phase:
        return self._phases.setdefault(name, _Phase(now_s, 0, 0))

    def _move(self, event: FileProgress) -> bool:
        """Take note of a file's bytes; return whether there are more of them than before."""
        key = (event.phase, event.path)
        seen = self._files.get(key)
        # What was on the disk before this boot is not progress: the first number seen is the base.
        base = event.done_bytes if seen is None else min(seen.base_bytes, event.done_bytes)
        self._files[key] = _File(base, event.done_bytes, event.total_bytes)
        return seen is None or event.done_bytes > seen.done_bytes

    def _keep_trouble(self, event: FileTrouble) -> None:
        key = (event.phase, event.path)
        if event.final:
            self._files.pop(key, None)
        self._troubles.pop(key, None)
        self._troubles[key] = event
        while len(self._troubles) > _KEPT_TROUBLES:
            self._troubles.pop(next(iter(self._troubles)))

    def _views(self, now_s: float) -> tuple[PhaseView, ...]:
        return tuple(
            PhaseView(
                name,
                p.status,
                p.total_bytes,
                self._done_bytes(name),
                p.files_done,
                p.files,
                max(0.0, now_s - p.started_s) if p.status == "running" else p.seconds,
            )
            for name, p in self._phases.items()
        )

    def _done_bytes(self, name: str) -> int:
        phase = self._phases[name]
        done = phase.moved_bytes
        if phase.status == "running":
            done += sum(f.done_bytes - f.base_bytes for key, f in self._files.items() if key[0] == name)
        return min(done, phase.total_bytes) if phase.total_bytes else done

    def _sample(self, now_s: float) -> None:
        if self._samples and now_s - self._samples[-1][0] < _SAMPLE_S:
            return
        self._samples.append((now_s, sum(self._done_bytes(name) for name in self._phases)))
        while len(self._samples) > 2 and now_s - self._samples[1][0] >= RATE_WINDOW_S:
            self._samples.popleft()

    def _rate(self) -> float:
        if len(self._samples) < 2:
            return 0.0
        (since_s, before), (now_s, after) = self._samples[0], self._samples[-1]
        return max(0.0, (after - before) / (now_s - since_s)) if now_s > since_s else 0.0

    def _active(self) -> tuple[FileView, ...]:
        views = [FileView(key[1], f.done_bytes, f.total_bytes) for key, f in self._files.items()]
        return tuple(sorted(views, key=lambda f: (-f.done_bytes / max(1, f.total_bytes), f.path)))


def estimate(phases: tuple[PhaseView, ...], rate_bytes_s: float, history: History) -> tuple[float | None, str]:
    """Return seconds to the end of what is known and what that rests on; None where nothing supports a number.

    Running bytes at the present rate, then the median of each phase that is still to come; while others are waited for,
    from when they are ready, which nobody knows and the basis says. None once it answers: what still runs beside the
    engine keeps nobody waiting.
    """
    if any(p.name == "serve" and p.status == "done" for p in phases):
        return None, ""
    moving = [p for p in phases if p.status == "running" and p.total_bytes > 0]
    if not phases or (moving and rate_bytes_s <= 0):
        return None, ""
    left_s = sum(p.total_bytes - p.done_bytes for p in moving) / rate_bytes_s if moving else 0.0
    basis = [f"rate of the last {RATE_WINDOW_S:.0f} s"] if moving else []
    waits = [_WAITS[p.name] for p in phases if p.status == "running" and p.name in _WAITS]
    settled = {p.name for p in phases if p.status != "running" or p.total_bytes > 0 or p.name in _WAITS}
    spent_s = {p.name: p.seconds for p in phases}
    coming = [max(0.0, s - spent_s.get(name, 0.0)) for name, s in history.median_s.items() if name not in settled]
    if coming:
        left_s += sum(coming)
        basis.append(f"median of {history.boots} boot{'' if history.boots == 1 else 's'}")
    return (left_s, ", ".join([*waits, *basis])) if basis else (None, "")


def _goal(phases: tuple[PhaseView, ...], history: History) -> Goal:
    """Return what the estimate counts up to: the answer only where it has the engine's start in it."""
    names = {p.name for p in phases}
    if "serve" in names or "serve" in history.median_s:
        return "serving"
    return "prepared" if "plan" in names else "done"


def summarize(phases: tuple[PhaseView, ...]) -> str:
    """Return one line for `systemctl status`: what is running and how far it is."""
    running = [p for p in phases if p.status == "running"]
    if not running:
        return "finding the hardware" if not phases else f"{phases[-1].name} {phases[-1].status}"
    return ", ".join(
        f"{p.name} {show_bytes(p.done_bytes)} of {show_bytes(p.total_bytes)}, {count(p.files_done, 'file')} done"
        if p.total_bytes
        else p.name
        for p in running
    )
