"""What doctor measured on this node, where it was asked to. Frozen values only."""

from __future__ import annotations

from kboot.values import dataclass


@dataclass(frozen=True, slots=True)
class ReadSample:
    """So many bytes in so many seconds, by so many streams at once."""

    size_bytes: int
    seconds: float
    streams: int

    @property
    def bytes_per_s(self) -> float:
        """Return the rate; 0 of less time than a clock counts."""
        return self.size_bytes / self.seconds if self.seconds >= 1e-9 else 0.0


@dataclass(frozen=True, slots=True)
class FirstReads:
    """Small reads all over the shards, each done twice past the page cache: medians of the first and of the second."""

    reads: int
    first_s: float
    second_s: float


@dataclass(frozen=True, slots=True)
class RotSample:
    """The beginnings of shards, hashed and compared with what was proven before. wrong: paths that differ."""

    files: int
    size_bytes: int
    wrong: tuple[str, ...] = ()
