"""What doctor measured on this node, where it was asked to. Frozen values only."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ReadSample:
    """So many bytes in so many seconds, by so many streams at once. Both are more than nothing."""

    size_bytes: int
    seconds: float
    streams: int

    @property
    def bytes_per_s(self) -> float:
        """Return the rate."""
        return self.size_bytes / self.seconds if self.seconds > 0 else 0.0


@dataclass(frozen=True, slots=True)
class MeasuredFacts:
    """disk: real shards, past the page cache. mapped: pages of a shard, touched one after the other as mapped loading
    does; None where all that was tried is in memory already.
    """

    disk: ReadSample | None = None
    mapped: ReadSample | None = None
