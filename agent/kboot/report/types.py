"""What was done: outcomes, and the whole boot as one document. Values only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from kboot.errors import KbootError

OutcomeStatus = Literal["done", "unchanged", "failed", "skipped"]
BootStatus = Literal["done", "degraded", "failed", "interrupted"]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one action.

    title: plan.describe() of it. before/after: the value read before and after, where there is one.
    source: where bytes came from. error: None unless failed.
    """

    phase: str
    title: str
    reason: str
    status: OutcomeStatus
    start_unix_s: float
    seconds: float
    size_bytes: int = 0
    source: str = ""
    before: str = ""
    after: str = ""
    error: KbootError | None = None


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of the timeline on one clock (Unix seconds).

    lane: who it belongs to: "kboot" for kboot's phases, "engine" for the engine's, "machine" for what ran before.
    """

    name: str
    lane: Literal["machine", "kboot", "engine"]
    start_unix_s: float
    end_unix_s: float
    size_bytes: int = 0
    status: str = "done"
    detail: str = ""

    @property
    def seconds(self) -> float:
        """Length, never negative."""
        return max(0.0, self.end_unix_s - self.start_unix_s)


@dataclass(frozen=True, slots=True)
class BootReport:
    """One boot, whole. ready_unix_s: when the engine answered; None when it did not or was not asked to."""

    boot_id: str
    profile: str
    commit: str
    status: BootStatus
    started_unix_s: float
    finished_unix_s: float
    kernel_start_unix_s: float | None
    ready_unix_s: float | None
    verify_mode: str
    verify_claim: str
    cache_key: str
    spans: tuple[Span, ...]
    outcomes: tuple[Outcome, ...]
    warnings: tuple[str, ...]
    error: KbootError | None
