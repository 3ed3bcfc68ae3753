"""How long does the vendor mend a branch of the driver, and which CUDA does it run? As data, with its date.

Source: docs.nvidia.com/datacenter/tesla/drivers, "Supported Drivers and CUDA Toolkit Versions" (its versions of R615
and R620), read 2026-11-30. Branches that it does not list are not judged.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Literal

from kboot.values import dataclass

READ_ON = "2026-11-30"


@dataclass(frozen=True, slots=True)
class Branch:
    """kind: how long it is kept. ends: last month in which it is mended. cuda: the newest major version it runs."""

    kind: Literal["long-term", "production", "new-feature"]
    ends: tuple[int, int]
    cuda: int

    @property
    def until(self) -> str:
        """Return the last month as it is written: "2026-06"."""
        return "{}-{:02d}".format(*self.ends)


BRANCHES: Mapping[int, Branch] = {
    535: Branch("long-term", (2026, 6), 12),
    580: Branch("long-term", (2028, 6), 13),
    595: Branch("production", (2027, 3), 13),
    610: Branch("new-feature", (2026, 8), 13),
    620: Branch("long-term", (2029, 9), 13),
}


OLDEST_DRIVER = {11: "450.80.02", 12: "525.60.13", 13: "580.65.06"}
"""The first driver that runs a major version of CUDA (docs.nvidia.com/deploy/cuda-compatibility, same date)."""


def branch_of(version: str | None) -> int | None:
    """Return the branch of a driver's version: 580 of "580.95.05"; None where it is no version."""
    head = (version or "").partition(".")[0]
    return int(head) if head.isdecimal() else None


def month_of(unix_s: float) -> tuple[int, int] | None:
    """Return year and month (UTC) of a time; None of one that no calendar has."""
    try:
        date = datetime.fromtimestamp(unix_s, UTC)
    except (ValueError, OverflowError, OSError):
        return None
    return date.year, date.month
