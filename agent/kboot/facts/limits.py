"""Which resource limits bind this process?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kboot.facts.reader import Reader
from kboot.facts.types import LimitFacts

if TYPE_CHECKING:
    from kboot.facts.basic_types import Gap
    from kboot.host.types import Host

_SOURCE = "/proc/self/limits"


def collect_limits(host: Host) -> tuple[LimitFacts, tuple[Gap, ...]]:
    """Read the limits an engine can run into. One that is not known is (0, 0) and a Gap."""
    reader = Reader(host)
    try:
        limits = host.limits()
    except OSError as exc:
        reader.gap("limits", _SOURCE, exc)
        limits = {}
    for name in ("nofile", "memlock"):
        if limits and name not in limits:
            reader.gap(f"limits.{name}", _SOURCE, "not in it")
    return LimitFacts(nofile=limits.get("nofile", (0, 0)), memlock_bytes=limits.get("memlock", (0, 0))), reader.gaps
