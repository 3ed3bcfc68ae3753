"""What does this node know of one other node of its fleet?"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

from kboot.plan.claims import Claims
from kboot.plan.ownership import Pieces
from kboot.sources.peers import Peer


@dataclass(slots=True)
class Seen:
    """What is known of one other node. Times are monotonic; None = never.

    gained_s: when it had something new or said that it had received something; had_s: when it had something new.
    claims: since when it says of pieces that they are on their way to it, whether or not it said so all the time.
    rate_from: when its rate began to be measured, and what was left to it then. left: the list has it no more.
    """

    peer: Peer
    asked: bool = False
    left: threading.Event = field(default_factory=threading.Event)
    prepares: bool = False
    answered_s: float | None = None
    missed_since_s: float | None = None
    gained_s: float = 0.0
    had_s: float = 0.0
    complete: bool = False
    gave_up: bool = False
    moved_bytes: int = 0
    have: dict[str, Pieces] = field(default_factory=dict)
    fetching: dict[str, Pieces] = field(default_factory=dict)
    claims: Claims = field(default_factory=Claims)
    busy: int = 0
    failures: int = 0
    failed_s: float = 0.0
    avoid_until_s: float = 0.0
    dropped: bool = False
    told: bool = False
    rate_from: tuple[float, int] | None = None

    def is_lost(self, now_s: float, after_s: float) -> bool:
        """Return whether it was here and does not answer any more, or is not to be asked."""
        return self.dropped or (self.missed_since_s is not None and now_s - self.missed_since_s >= after_s)
