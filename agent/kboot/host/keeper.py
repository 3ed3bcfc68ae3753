"""What ends an engine whose kboot was killed? This program: it waits for the end of a pipe that kboot alone holds open.

Run as a file of its own by an interpreter without site packages, so it imports the standard library alone. Arguments:
the mark that every process of the engine has in its environment, and the seconds between SIGTERM and SIGKILL. Input:
the engine's process id, as soon as there is one.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from contextlib import suppress
from dataclasses import dataclass  # not that of kboot.values: it runs as a file, where kboot is not importable

_POLL_S = 0.05
_KILL_GRACE_S = 5.0
_FIELDS_BEFORE_START = 19  # of /proc/PID/stat, from the state on


@dataclass(frozen=True, slots=True)
class Seen:
    """A process that has not ended. start: clock ticks since the machine's start; with the pid it is unique."""

    pid: int
    start: int
    parent: int
    session: int


def look() -> tuple[Seen, ...]:
    """Return every process of this machine that has not ended."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        with suppress(OSError), open(f"/proc/{name}/stat", "rb") as file:  # it has ended since
            state, parent, _, session, *rest = file.read().rpartition(b")")[2].split()
            if state not in (b"Z", b"X"):
                found.append(Seen(int(name), int(rest[_FIELDS_BEFORE_START - 4]), int(parent), int(session)))
    return tuple(found)


def tree_of(pid: int, mark: str, known: frozenset[tuple[int, int]]) -> tuple[Seen, ...]:
    """Return what is left of an engine: its session, whoever has its mark or was known before, and all below them."""
    processes = look()
    ours = {
        p.pid
        for p in processes
        if (pid and pid in (p.pid, p.session)) or (p.pid, p.start) in known or _has(p.pid, mark)
    }
    before = -1
    while before != len(ours):
        before = len(ours)
        ours |= {p.pid for p in processes if p.parent in ours}
    return tuple(p for p in processes if p.pid in ours)


def end(pid: int, mark: str, timeout_s: float) -> None:
    """Send SIGTERM to all that is left of an engine, and SIGKILL at the deadline.

    The first process is not told: the kernel has done that when kboot ended, and a second SIGTERM means haste to some.
    """
    deadline_s = time.monotonic() + timeout_s
    known: frozenset[tuple[int, int]] = frozenset()
    while left := tree_of(pid, mark, known):
        late_s = time.monotonic() - deadline_s
        if late_s > _KILL_GRACE_S:
            return
        for process in left:
            if late_s > 0:
                _send(process.pid, signal.SIGKILL)
            elif process.pid != pid and (process.pid, process.start) not in known:
                _send(process.pid, signal.SIGTERM)
        known |= {(p.pid, p.start) for p in left}
        time.sleep(_POLL_S)


def _has(pid: int, mark: str) -> bool:
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return f"={mark}\0".encode() in file.read()
    except OSError:
        return False


def _send(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


def main() -> None:
    """Wait for kboot's end, then end its engine."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # those are for kboot, whose end is what counts
    mark, timeout_s = sys.argv[1], float(sys.argv[2])
    said = sys.stdin.buffer.read()
    end(int(said or 0), mark, timeout_s)


if __name__ == "__main__":
    main()
