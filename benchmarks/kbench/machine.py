"""What is this machine, how busy is it, and what does a program cost on it?"""

from __future__ import annotations

import os
import platform
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

HZ = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")
SAMPLE_S = 0.05
BUSY_SHARE = 0.08
FREE_PAGES_BYTES = 1 << 30
FILLED_AT_ONCE_BYTES = 8 << 20


@dataclass(frozen=True, slots=True)
class Cost:
    """What one run of a method took.

    cpu_s: user and system time of all its processes. peak_rss_mib: largest sum of resident sizes over its process
    tree, sampled; pages that processes share are counted for each. foreign_share: part of the machine's CPU time that
    neither this run nor the servers used. servers_cpu_s: what those used meanwhile.
    """

    wall_s: float
    cpu_s: float
    peak_rss_mib: float
    foreign_share: float
    servers_cpu_s: float = 0.0

    def then(self, other: Cost) -> Cost:
        """Return the cost of this run followed by another."""
        wall_s = self.wall_s + other.wall_s
        foreign = self.foreign_share * self.wall_s + other.foreign_share * other.wall_s
        return Cost(
            wall_s,
            self.cpu_s + other.cpu_s,
            max(self.peak_rss_mib, other.peak_rss_mib),
            foreign / max(wall_s, 1e-9),
            self.servers_cpu_s + other.servers_cpu_s,
        )


def measure(
    argv: Sequence[str],
    env: Mapping[str, str],
    *,
    timeout_s: float,
    servers: Sequence[int] = (),
    track_rss: bool = True,
) -> tuple[Cost, str]:
    """Run a program to its end and return what it cost and what it printed on stdout.

    Raises:
        RuntimeError: it failed or took longer than timeout_s; the last lines of its stderr are in the message.
    """
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        cost, status = _measure(argv, env, timeout_s, servers, track_rss, out, err)
        for stream in (out, err):
            stream.seek(0)
        printed, said = out.read(), err.read()
    if status:
        raise RuntimeError(f"{' '.join(argv[:3])}: exit status {status}: {_tail(said) or _tail(printed)}")
    return cost, printed


def _measure(
    argv: Sequence[str], env: Mapping[str, str], timeout_s: float, servers: Sequence[int], track_rss: bool,
    out: TextIO, err: TextIO,
) -> tuple[Cost, int]:  # fmt: skip
    busy, served, before = busy_s(), sum(map(cpu_of, servers)), os.times()
    started = time.monotonic()
    child = subprocess.Popen(
        argv, env=dict(env), stdin=subprocess.DEVNULL, stdout=out, stderr=err, start_new_session=True
    )
    try:
        peak = _watch(child, started + timeout_s) if track_rss else 0
        child.wait(timeout=max(0.1, started + timeout_s - time.monotonic()))
    except BaseException as exc:
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()
        if isinstance(exc, subprocess.TimeoutExpired):
            raise RuntimeError(f"{' '.join(argv[:3])}: not done after {timeout_s:g} s") from None
        raise
    wall_s, after = time.monotonic() - started, os.times()
    cpu_s = after.children_user - before.children_user + after.children_system - before.children_system
    servers_cpu_s = sum(map(cpu_of, servers)) - served
    foreign = max(0.0, busy_s() - busy - cpu_s - servers_cpu_s) / (wall_s * (os.cpu_count() or 1))
    return Cost(wall_s, cpu_s, peak * PAGE / (1 << 20), foreign, servers_cpu_s), child.returncode


def _watch(child: subprocess.Popen[bytes], deadline_s: float) -> int:
    """Return the largest number of resident pages of the child's session until it ends."""
    peak = 0
    while child.poll() is None:
        if time.monotonic() > deadline_s:
            raise subprocess.TimeoutExpired(child.args, deadline_s)
        peak = max(peak, sum(_resident_pages(pid) for pid in _session(child.pid)))
        time.sleep(SAMPLE_S)
    return peak


def _session(leader: int) -> list[int]:
    pids = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            fields = _stat(int(name))
            if len(fields) > 3 and fields[3] == str(leader):
                pids.append(int(name))
    return pids


def _stat(pid: int) -> list[str]:
    """Return the fields of /proc/PID/stat from the state on; empty when the process is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def _resident_pages(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except (OSError, IndexError):
        return 0


def cpu_of(pid: int) -> float:
    """Return user and system seconds of one process."""
    fields = _stat(pid)
    return (int(fields[11]) + int(fields[12])) / HZ if len(fields) > 12 else 0.0


def busy_s() -> float:
    """Return the CPU seconds the machine has worked since it started, idle and I/O wait left out."""
    values = [int(v) for v in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    return (sum(values) - values[3] - values[4]) / HZ


def wait_quiet(longest_s: float) -> None:
    """Return when the machine idles, or after longest_s."""
    deadline = time.monotonic() + longest_s
    while time.monotonic() < deadline:
        busy = busy_s()
        time.sleep(0.5)
        if (busy_s() - busy) / (0.5 * (os.cpu_count() or 1)) < BUSY_SHARE:
            return


def fill_page_cache(junk: Path) -> None:
    """Read a file of holes on all CPUs until little memory is free.

    Some virtual machines hand free pages back to their host within seconds and take them back page by page, 1-2 CPU
    seconds for a GB. Whoever writes more slowly would pay for that. Clean cached pages are reused without it.
    """
    total = _meminfo("MemTotal")
    if not junk.exists():
        with junk.open("wb") as file:
            file.truncate(total)
    pieces = iter(range(0, total, FILLED_AT_ONCE_BYTES))

    def work(_: int) -> None:
        buffer = bytearray(FILLED_AT_ONCE_BYTES)
        with junk.open("rb", buffering=0) as file:
            while _meminfo("MemFree") > FREE_PAGES_BYTES and (start := next(pieces, None)) is not None:
                os.preadv(file.fileno(), [buffer], start)

    cpus = len(os.sched_getaffinity(0))
    with ThreadPoolExecutor(cpus) as pool:
        list(pool.map(work, range(cpus)))


def _meminfo(name: str) -> int:
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) << 10
    return 0


def host_facts() -> dict[str, str | int | float | None]:
    """Return what a reader needs to judge the figures."""
    return {
        "cpu": _cpu_model(),
        "cpus": len(os.sched_getaffinity(0)),
        "memory_gib": round(_meminfo("MemTotal") / (1 << 30), 1),
        "kernel": platform.release(),
        "python": platform.python_version(),
    }


def _cpu_model() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _tail(text: str) -> str:
    return " ".join(text.split())[-600:]
