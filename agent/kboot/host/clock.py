"""What time is it, by which clock? The only place that reads clocks or sleeps."""

from __future__ import annotations

import os
import time
from pathlib import Path

_run = {"offset_s": time.time() - time.monotonic()}  # one number: threads of an earlier run read it while it is set


def unix_s() -> float:
    """Return seconds since 1970 (UTC). May jump while the clock is being set: for records, not for durations."""
    return time.time()


def monotonic_s() -> float:
    """Return seconds on a clock that never goes back and stands still in suspend: for durations and deadlines."""
    return time.monotonic()


def begin_run() -> float:
    """Return seconds since 1970 (UTC), with which a run begins: its times go on from here evenly, see run_unix_s."""
    _run["offset_s"] = time.time() - time.monotonic()
    return run_unix_s()


def run_unix_s(at_monotonic_s: float | None = None) -> float:
    """Return seconds since 1970 (UTC) by the clock as it was set when the run began, whatever it is set to meanwhile.

    For the times of a timeline: a difference of two is how long it took. at_monotonic_s: of another moment than now.
    """
    return _run["offset_s"] + (time.monotonic() if at_monotonic_s is None else at_monotonic_s)


def boot_monotonic_s() -> float:
    """Return seconds since the kernel started, suspend included (CLOCK_BOOTTIME); the same for every process."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def process_cpu_s() -> float:
    """Return the CPU seconds, user and system, that all threads of this process have used."""
    return time.process_time()


def machine_idle_s() -> float:
    """Return the seconds that all CPUs of this machine together were idle since the kernel started; 0 if not told."""
    try:
        return float(Path("/proc/uptime").read_text().split()[1])
    except (OSError, ValueError, IndexError):
        return 0.0


def machine_cpus() -> int:
    """Return how many CPUs machine_idle_s() sums up."""
    return os.cpu_count() or 1


def sleep_s(seconds: float) -> None:
    """Sleep; nothing for zero or less."""
    if seconds > 0:
        time.sleep(seconds)
