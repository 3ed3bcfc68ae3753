"""Which processes wait for a disk or a driver that does not answer?"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from kboot.facts.upkeep_types import Blocked
from kboot.host.clock import monotonic_s, sleep_s
from kboot.values import dataclass

if TYPE_CHECKING:
    from kboot.facts.reader import Reader

_MOST_PROCESSES = 50_000
_STEP_S = 0.1
_SWITCHES = re.compile(r"^(?:non)?voluntary_ctxt_switches:\s*(\d+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class _Look:
    """start: in clock ticks, tells a process from a later one of its number. switches: how often it was scheduled."""

    pid: int
    name: str
    start: str
    switches: int


def collect_blocked(reader: Reader, look_s: float) -> tuple[Blocked, ...] | None:
    """Return the processes that are in uninterruptible sleep now and did not run once for look_s.

    Looks for look_s only while there is one. A recorded machine is one look; one without processes was not looked at.
    """
    pids = _pids(reader)
    if not pids:
        return None
    waiting = {look.pid: look for look in _looks(reader, pids)}
    started_s = monotonic_s()
    while waiting and reader.host.live and monotonic_s() - started_s < look_s:
        sleep_s(min(_STEP_S, look_s))
        again = {look.pid: look for look in _looks(reader, tuple(waiting))}
        waiting = {pid: look for pid, look in waiting.items() if again.get(pid) == look}
    waited_s = monotonic_s() - started_s if reader.host.live else look_s
    return tuple(Blocked(pid, look.name, waited_s, _where(reader, pid)) for pid, look in sorted(waiting.items()))


def _pids(reader: Reader) -> tuple[int, ...]:
    return tuple(int(name) for name in reader.names("/proc") if name.isdecimal())[:_MOST_PROCESSES]


def _looks(reader: Reader, pids: tuple[int, ...]) -> tuple[_Look, ...]:
    found = []
    for pid in pids:
        head, _, rest = (reader.optional(f"/proc/{pid}/stat", 4096) or "").rpartition(")")
        words = rest.split()
        if len(words) > 19 and words[0] == "D":
            status = reader.optional(f"/proc/{pid}/status", 16384) or ""
            switches = sum(int(n) for n in _SWITCHES.findall(status))
            found.append(_Look(pid, head.partition("(")[2], words[19], switches))
    return tuple(found)


def _where(reader: Reader, pid: int) -> str:
    text = (reader.optional(f"/proc/{pid}/wchan", 200) or "").strip()
    return "" if text == "0" else text
