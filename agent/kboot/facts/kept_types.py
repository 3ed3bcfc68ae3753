"""What kboot keeps on this disk from one boot to the next, as doctor judges it. Frozen values only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Literal

from kboot.values import dataclass


@dataclass(frozen=True, slots=True)
class IndexFacts:
    """The weight index of the pinned commit. shards: files it names. problem: why it could not be read."""

    path: str
    shards: tuple[str, ...] = ()
    problem: str = ""


@dataclass(frozen=True, slots=True)
class SmallFile:
    """A file that an engine needs beside the weights. state: after its bytes were hashed just now."""

    path: str
    state: Literal["right", "wrong", "absent", "not-looked-at"]
    why: str = ""


LockState = Literal["dead", "silent", "elsewhere"]


@dataclass(frozen=True, slots=True)
class LockFacts:
    """A lock file that may keep somebody waiting. holder: who signed it, in words; "" where nobody did.

    kind: "flock" goes with its holder's process; the mere existence of the others holds them.
    state: "dead" = its holder is gone; "silent" = its holder lives and gave no sign for quiet_s; "elsewhere" = another
    machine's, which cannot be looked into from here.
    """

    path: str
    kind: Literal["flock", "file", "baton"]
    state: LockState
    holder: str
    quiet_s: float


@dataclass(frozen=True, slots=True)
class TermsFacts:
    """Whether a hand-off may pass as far as the licence goes; why: one sentence."""

    passes: bool
    status: Literal["accepted", "not-needed", "changed", "missing"]
    why: str


@dataclass(frozen=True, slots=True)
class PastBoot:
    """An earlier boot. ready_s: from its start until the engine answered; None when it did not.

    seconds: of kboot's and the engine's phases, by name. changed: what may differ between boots, by name.
    """

    boot_id: str
    profile: str
    started_unix_s: float
    status: str
    ready_s: float | None
    seconds: Mapping[str, float] = field(default_factory=dict)
    changed: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SelfFacts:
    """version: of this kboot. prepared_by: that wrote the hand-off record; "" without one.

    died_at_s: start of a boot whose process ended without a word.
    """

    version: str
    prepared_by: str = ""
    died_at_s: float | None = None


@dataclass(frozen=True, slots=True)
class ReclaimFacts:
    """Who was asked whether this machine ends. said: the notice, "" without one. silent: source → why no answer."""

    asked: tuple[str, ...]
    said: str = ""
    silent: Mapping[str, str] = field(default_factory=dict)
