"""What does a running process show: its title, its threads, the CPUs each may use, and how long they waited for one?"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from kboot.cpulist import parse_cpu_list
from kboot.facts.reader import whole_number
from kboot.values import dataclass

if TYPE_CHECKING:
    from kboot.host.types import Host

ENGINE_UNIT = "kboot-engine.service"
_NS_PER_S = 1e9


@dataclass(frozen=True, slots=True)
class Task:
    """One thread. run_s, wait_s: on a CPU, and ready to run while others were; None where the kernel does not count.

    preempted: how often it was taken off its CPU before it was done.
    """

    tid: int
    cpus: frozenset[int]
    run_s: float | None
    wait_s: float | None
    preempted: int


@dataclass(frozen=True, slots=True)
class Process:
    """title: its command line, which many programs overwrite with a name."""

    pid: int
    title: str
    tasks: tuple[Task, ...]

    @property
    def cpus(self) -> frozenset[int]:
        """Return the CPUs that any of its threads may use."""
        return frozenset().union(*(task.cpus for task in self.tasks))

    @property
    def run_s(self) -> float | None:
        """Return the CPU time of its threads; None where one is not counted."""
        return _sum(task.run_s for task in self.tasks)

    @property
    def wait_s(self) -> float | None:
        """Return how long its threads waited for a CPU, together."""
        return _sum(task.wait_s for task in self.tasks)

    @property
    def preempted(self) -> int:
        """Return how often its threads lost their CPU."""
        return sum(task.preempted for task in self.tasks)


@dataclass(frozen=True, slots=True)
class Tree:
    """What a program started: its descendants, and its session, in which those stay whose parent has ended."""

    root: int


@dataclass(frozen=True, slots=True)
class Unit:
    """The processes of a service: those in its cgroup and below. name: "kboot-engine.service"."""

    name: str


Scope = Tree | Unit


def pids_of(host: Host, scope: Scope) -> tuple[int, ...]:
    """Return the processes of a scope, by number; none where nothing can be seen."""
    try:
        pids = sorted(int(name) for name in host.names("/proc") if name.isdecimal())
    except OSError:
        return ()
    match scope:
        case Tree(root):
            return _tree(host, pids, root)
        case Unit(name):
            ours = _machine_of(host)
            return tuple(pid for pid in pids if _is_in_unit(_text(host, f"/proc/{pid}/cgroup"), name, ours))


def _machine_of(host: Host) -> tuple[str, ...]:
    """Return the cgroup of this machine's first process without its own unit: () but in a container that sees it."""
    path = _text(host, "/proc/1/cgroup").splitlines()[-1:]
    parts = [part for part in path[0].rpartition(":")[2].split("/") if part] if path else []
    return tuple(parts[:-1] if parts[-1:] == ["init.scope"] else parts)


def _is_in_unit(text: str, name: str, machine: tuple[str, ...]) -> bool:
    """Return whether a process is in a unit of this machine: only slices stand above it, so no machine inside this one.

    text: of /proc/PID/cgroup, lines "0::/system.slice/kboot-engine.service/…".
    """
    for line in text.splitlines():
        parts = [part for part in line.rpartition(":")[2].split("/") if part]
        if name in parts:
            above = tuple(parts[: parts.index(name)])
            between = above[len(machine) :]
            if above[: len(machine)] == machine and all(
                part.endswith(".slice") or part.startswith("user@") for part in between
            ):
                return True
    return False


def title_of(host: Host, pid: int) -> str:
    """Return a process's command line, its words apart by one blank; empty for one that is gone."""
    return " ".join(_text(host, f"/proc/{pid}/cmdline").replace("\0", " ").split())


def read_process(host: Host, pid: int) -> Process | None:
    """Return what a process shows; None when it is gone or not ours to see."""
    try:
        tids = sorted(int(name) for name in host.names(f"/proc/{pid}/task") if name.isdecimal())
    except OSError:
        return None
    tasks = tuple(task for tid in tids if (task := _task(host, f"/proc/{pid}/task/{tid}", tid)) is not None)
    return Process(pid, title_of(host, pid), tasks) if tasks else None


def _task(host: Host, folder: str, tid: int) -> Task | None:
    """Return a thread; None when it ended meanwhile."""
    status = _text(host, f"{folder}/status")
    mask = re.search(r"^Cpus_allowed_list:\s*(\S+)$", status, re.MULTILINE)
    if mask is None:
        return None
    preempted = re.search(r"^nonvoluntary_ctxt_switches:\s*(\d+)$", status, re.MULTILINE)
    numbers = [whole_number(word) for word in _text(host, f"{folder}/schedstat").split()]
    run_ns, wait_ns = [*numbers, None, None][:2]
    return Task(
        tid=tid,
        cpus=frozenset(parse_cpu_list(mask.group(1))),
        run_s=None if run_ns is None else run_ns / _NS_PER_S,
        wait_s=None if wait_ns is None else wait_ns / _NS_PER_S,
        preempted=int(preempted.group(1)) if preempted else 0,
    )


def _tree(host: Host, pids: Iterable[int], root: int) -> tuple[int, ...]:
    children: dict[int, list[int]] = {}
    found: set[int] = set()
    for pid in pids:
        parent, session = _parent_and_session(host, pid)
        children.setdefault(parent, []).append(pid)
        if session == root:
            found.add(pid)
    to_see = [root, *found]
    while to_see:
        for child in children.get(to_see.pop(), ()):
            if child not in found:
                found.add(child)
                to_see.append(child)
    return tuple(sorted(found))


def _parent_and_session(host: Host, pid: int) -> tuple[int, int]:
    """Return both of /proc/PID/stat, fields 4 and 6; zeros for a process that is gone."""
    fields = _text(host, f"/proc/{pid}/stat").rpartition(")")[2].split()
    return (int(fields[1]), int(fields[3])) if len(fields) > 3 else (0, 0)


def _text(host: Host, path: str) -> str:
    try:
        return host.read_text(path)
    except OSError:
        return ""


def _sum(values: Iterable[float | None]) -> float | None:
    found = [value for value in values if value is not None]
    return sum(found) if found else None
