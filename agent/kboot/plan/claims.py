"""For how long has a node said that pieces are on their way to it, and how long does a piece take?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kboot.plan.ownership import Pieces


class Claims:
    """What one node says that it receives from the origin. It may say so again and again: the first time counts."""

    def __init__(self) -> None:
        self._since: dict[str, list[tuple[float, Pieces]]] = {}  # by blob id; a piece is in one entry at most
        self._now: Mapping[str, Pieces] = {}
        self._longest_s = 0.0

    def told(self, fetching: Mapping[str, Pieces], have: Mapping[str, Pieces], now_s: float) -> None:
        """Take in what the node says now. now_s: on a clock that never goes back."""
        for blob_id in {*fetching, *self._since}:
            has, known, left = have.get(blob_id, 0), 0, []
            for since_s, pieces in self._since.get(blob_id, ()):
                if pieces & has:
                    self._longest_s = max(self._longest_s, now_s - since_s)
                if open_ := pieces & ~has:
                    left.append((since_s, open_))
                    known |= open_
            if new := fetching.get(blob_id, 0) & ~known & ~has:
                left.append((now_s, new))
            self._since[blob_id] = left
        self._since = {blob_id: left for blob_id, left in self._since.items() if left}
        self._now = fetching

    def younger(self, for_s: float, now_s: float) -> dict[str, Pieces]:
        """Return what is on its way to the node, without the pieces that it has said so of for longer."""
        found = {}
        for blob_id, pieces in self._now.items():
            for since_s, claimed in self._since.get(blob_id, ()):
                if now_s - since_s > for_s:
                    pieces &= ~claimed
            if pieces:
                found[blob_id] = pieces
        return found

    def slowest_s(self, now_s: float) -> float:
        """Return how long a piece takes or has taken the node at most; 0 while none was claimed."""
        running = [
            now_s - since_s
            for blob_id, pieces in self._now.items()
            for since_s, claimed in self._since.get(blob_id, ())
            if pieces & claimed
        ]
        return max([self._longest_s, *running])
