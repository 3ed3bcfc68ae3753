"""What happens during a boot, as values: executors emit, the terminal, the log and the timeline read."""

from __future__ import annotations

from collections.abc import Callable

from kboot.values import dataclass


@dataclass(frozen=True, slots=True)
class PhaseStarted:
    """total_bytes: what the phase will move or read; 0 where it moves none."""

    phase: str
    actions: int
    total_bytes: int


@dataclass(frozen=True, slots=True)
class PhaseFinished:
    """status: done, degraded, failed, interrupted or skipped."""

    phase: str
    status: str
    seconds: float
    bytes_done: int


@dataclass(frozen=True, slots=True)
class FileProgress:
    """Bytes of one file that are on disk (or read, for verify and warm); at most a few a second per file.

    path: empty where files are not told apart: then the bytes are the phase's, and files how many are done.
    total_bytes: 0 where nobody knows it.
    """

    phase: str
    path: str
    done_bytes: int
    total_bytes: int
    files: int = 0


@dataclass(frozen=True, slots=True)
class FileDone:
    """One file is proven (fetch, verify) or warm. reused_bytes: part of it that was here already."""

    phase: str
    path: str
    size_bytes: int
    seconds: float
    source: str
    reused_bytes: int = 0


@dataclass(frozen=True, slots=True)
class FileTrouble:
    """One try at a file failed; final: there will be no other."""

    phase: str
    path: str
    code: str
    message: str
    final: bool


@dataclass(frozen=True, slots=True)
class Notice:
    """Something an operator should read: event is a past-tense name ("source.demoted"), text one sentence."""

    event: str
    text: str


@dataclass(frozen=True, slots=True)
class EngineLine:
    """One line of the engine's log, with when it was read (Unix seconds)."""

    unix_s: float
    line: str


Event = PhaseStarted | PhaseFinished | FileProgress | FileDone | FileTrouble | Notice | EngineLine
Emit = Callable[[Event], None]
"""Called from any thread; must be quick and must not raise."""
Moved = Callable[[int, int], None]
"""Told of the bytes and the files that were done since; the same holds for it."""


def unheard(_event: Event) -> None:
    """Take the place of an Emit where nobody listens."""


def uncounted(_size_bytes: int, _files: int) -> None:
    """Take the place of a Moved where nobody counts."""
