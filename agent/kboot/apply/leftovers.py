"""Does an engine of an earlier start still live on this node, with the GPU memory that the next one needs?

Imports little, and reads one file of each process: `kboot exec` looks on the way to every engine start.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kboot.errors import ActionFailed
from kboot.facts.driver import ask_driver
from kboot.host.clock import monotonic_s, sleep_s
from kboot.quantities import show_memory
from kboot.values import dataclass

if TYPE_CHECKING:
    from kboot.handoff import HandoffRecord
    from kboot.host.types import Host

_POLL_S = 0.1
_NVML_TIMEOUT_S = 5.0
_TITLE_CHARACTERS = 60


@dataclass(frozen=True, slots=True)
class Leftover:
    """A process of an engine that nobody serves with any more, or of this very engine, running already.

    orphan: its parent has ended. ours: it is in this process's cgroup, so whoever stopped the engine is ending it too.
    """

    pid: int
    title: str
    orphan: bool
    ours: bool


@dataclass(frozen=True, slots=True)
class _Seen:
    parent: int
    session: int
    state: str


def find_leftovers(record: HandoffRecord, host: Host) -> tuple[Leftover, ...]:
    """Return what is left of engines, by process id: orphans with an engine's titles, and this engine itself.

    A worker whose parent lives belongs to another engine that serves, which is no concern of ours. What was forked is
    in its parent's session; one that is not has been handed to another parent, because its own has ended.
    """
    title = re.compile("|".join(record.worker_titles)) if record.worker_titles else None
    engine = " ".join(record.argv)
    skipped = _ancestors(host) | _kernel_threads(host)
    found = []
    for pid in sorted({int(name) for name in host.names("/proc") if name.isdecimal()} - skipped):
        words = _text(host, f"/proc/{pid}/cmdline").replace("\0", " ").strip()
        is_engine = words.endswith(engine)  # the interpreter of a script stands before it
        if not is_engine and (title is None or title.match(words) is None):
            continue
        seen = _stat(host, pid)
        if seen is None or seen.state in "ZX":
            continue
        parent = _stat(host, seen.parent)
        orphan = parent is None or parent.session != seen.session
        if is_engine or orphan:
            found.append(Leftover(pid, words[:_TITLE_CHARACTERS], orphan and not is_engine, _same_cgroup(host, pid)))
    return tuple(found)


def require_none_left(record: HandoffRecord, host: Host, patience_s: float = 10.0) -> None:
    """Return when no engine of an earlier start is left; orphans of our own, which are ending, are waited for.

    patience_s: how long at most.

    Raises:
        ActionFailed: engine-left-over, which names each process and what it holds.
    """
    deadline_s = monotonic_s() + patience_s
    left = find_leftovers(record, host)
    while any(each.ours and each.orphan for each in left) and monotonic_s() < deadline_s:
        sleep_s(_POLL_S)
        left = find_leftovers(record, host)
    if not left:
        return
    unknown: list[str] = []
    holds = _gpu_memory(host, unknown.append) if any(worker.gpu is not None for worker in record.workers) else {}
    left = tuple(each for each in left if not _is_elsewhere(each, record, holds))
    if left:
        raise left_over(left, holds, unknown)


def left_over(
    left: Sequence[Leftover], holds: Mapping[int, Mapping[int, int]], unknown: Sequence[str] = ()
) -> ActionFailed:
    """Return the error. holds: bytes by GPU, by process. unknown: why it was not to be learned what they hold."""
    first, *others = (_words(each, holds.get(each.pid, {})) for each in left)
    return ActionFailed(
        "engine-left-over",
        f"an engine of an earlier start is not gone: {first}",
        where=(*others, *(f"what is held of which GPU is not known: {why}" for why in unknown)),
        hint=f"end it, then start again: `kill {' '.join(str(each.pid) for each in left)}`",
    )


def _words(left: Leftover, holds: Mapping[int, int]) -> str:
    memory = "".join(f", holds {show_memory(size_bytes)} of GPU {gpu}" for gpu, size_bytes in sorted(holds.items()))
    why = "its parent has ended" if left.orphan else "it runs already"
    return f"pid {left.pid} ({left.title}): {why}{memory}"


def _is_elsewhere(left: Leftover, record: HandoffRecord, holds: Mapping[int, Mapping[int, int]]) -> bool:
    """Return whether an orphan is known to work on GPUs that this engine does not use."""
    gpus = {worker.gpu for worker in record.workers}
    held = set(holds.get(left.pid, {}))
    return left.orphan and bool(held) and not held & gpus


def _gpu_memory(host: Host, say: Callable[[str], None]) -> Mapping[int, Mapping[int, int]]:
    """Return bytes by GPU by process; empty where the driver does not say."""
    gpus = ask_driver(host, _NVML_TIMEOUT_S, say).get("gpus")
    holds: dict[int, dict[int, int]] = {}
    for gpu in gpus if isinstance(gpus, list) else ():
        for pid, used in _holders(gpu):
            holds.setdefault(pid, {})[gpu["index"]] = used
    return holds


def _holders(gpu: Any) -> list[tuple[int, int]]:
    procs = gpu.get("procs") if isinstance(gpu, dict) and isinstance(gpu.get("index"), int) else None
    named = [p for p in procs if isinstance(p, dict)] if isinstance(procs, list) else []
    return [(p["pid"], used) for p in named if isinstance(p.get("pid"), int) and isinstance(used := p.get("used"), int)]


def _kernel_threads(host: Host) -> set[int]:
    """Return the children of kthreadd, where the kernel lists them: thousands on a large machine, none an engine."""
    children = _text(host, "/proc/2/task/2/children") if _text(host, "/proc/2/comm") == "kthreadd" else ""
    return {int(pid) for pid in children.split()}


def _ancestors(host: Host) -> set[int]:
    """Return this process and those it comes from: `kboot exec` was started by some of them."""
    found: set[int] = set()
    pid = _own_pid(host)
    while pid > 0 and pid not in found:
        found.add(pid)
        seen = _stat(host, pid)
        pid = seen.parent if seen else 0
    return found


def _own_pid(host: Host) -> int:
    first = _text(host, "/proc/self/stat").partition(" ")[0]
    return int(first) if first.isdecimal() else 0


def _same_cgroup(host: Host, pid: int) -> bool:
    own = _text(host, "/proc/self/cgroup")
    return bool(own) and own == _text(host, f"/proc/{pid}/cgroup")


def _stat(host: Host, pid: int) -> _Seen | None:
    """Return state, parent and session of /proc/PID/stat; None for a process that is gone."""
    fields = _text(host, f"/proc/{pid}/stat").rpartition(")")[2].split()
    return _Seen(int(fields[1]), int(fields[3]), fields[0]) if len(fields) > 3 else None


def _text(host: Host, path: str) -> str:
    try:
        return host.read_text(path)
    except OSError:
        return ""
