"""Keeps each worker of a wrapped command line to its part of the CPUs, in a process of its own beside it.

`kboot exec -- CMD` becomes CMD: nothing of kboot is left in it that could look after what it starts.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from typing import TYPE_CHECKING

from kboot.apply.own_cpus import OwnCpus
from kboot.apply.pin_watch import PinWatch
from kboot.engines.sglang import WORKER_TITLES as SGLANG
from kboot.engines.tokenspeed import WORKER_TITLES as TOKENSPEED
from kboot.engines.vllm import WORKER_TITLES as VLLM
from kboot.events import Event, Notice
from kboot.facts.process import Tree
from kboot.handoff import WorkerPlan
from kboot.host.clock import monotonic_s
from kboot.host.processes import start_beside, wait_for_end
from kboot.host.real import RealHost
from kboot.report.saved import process_mark
from kboot.values import dataclass

if TYPE_CHECKING:
    from kboot.engines.types import CpuPlacement
    from kboot.host.types import Host

TITLES = (*VLLM, *SGLANG, *TOKENSPEED)


@dataclass(frozen=True, slots=True)
class Patience:
    """look_s: between looks. quiet_s: so long nothing had to be pinned and all are there: done. most_s: done anyway."""

    look_s: float = 2.0
    quiet_s: float = 60.0
    most_s: float = 7200.0


def plans_of(placement: CpuPlacement) -> tuple[WorkerPlan, ...]:
    """Return what each worker is to be kept to; none where they have no CPUs of their own."""
    cpus = [cpu for worker in placement.workers for cpu in worker.cpus]
    if len(placement.workers) < 2 or len(cpus) > len(set(cpus)):
        return ()
    return tuple(WorkerPlan(w.worker, w.gpu, w.cpus, w.threads, w.memory_node) for w in placement.workers)


def begin_following(placement: CpuPlacement, threads: str) -> None:
    """Start what follows this process from now on, whatever it becomes; it ends by itself.

    threads: OMP_NUM_THREADS of the command.

    Raises:
        OSError: it cannot be started.
    """
    plans = plans_of(placement)
    if plans:
        process = process_mark(RealHost(), "self")
        asked = json.dumps({"plans": [asdict(plan) for plan in plans], "threads": threads, "process": process})
        start_beside((sys.executable, "-P", "-m", "kboot.apply.pin_follow", asked))


def follow(
    plans: Sequence[WorkerPlan], threads: str, process: tuple[int, str], host: Host, patience: Patience | None = None
) -> tuple[str, ...]:
    """Keep the workers to their plans until nothing has to be done any more; return what is off plan then.

    process: number and start of the one that was followed; () is returned when it ends before.
    """
    patience = patience or Patience()
    began_s = calm_since_s = monotonic_s()

    def tell(event: Event) -> None:
        nonlocal calm_since_s
        calm_since_s = monotonic_s()
        if isinstance(event, Notice):
            _say(event.text)

    watch = PinWatch(plans, TITLES, {"OMP_NUM_THREADS": threads}, host, tell, patience.look_s)
    watch.begin(Tree(process[0]))
    while monotonic_s() - began_s < patience.most_s:
        wait_for_end(process[0], patience.look_s)
        if _has_ended(process, host):
            watch.end()
            return ()
        if watch.found < len(plans):
            calm_since_s = monotonic_s()
        elif monotonic_s() - calm_since_s >= patience.quiet_s:
            break
    return tuple(finding for check in watch.settle({}) for finding in check.findings)


def _has_ended(process: tuple[int, str], host: Host) -> bool:
    """Return whether a process is gone, or only waits for its parent, which may wait for us to let go of stderr."""
    try:
        state = host.read_text(f"/proc/{process[0]}/stat").rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return True
    return state in ("Z", "X") or process_mark(host, process[0]) != process


def _say(text: str) -> None:
    with suppress(OSError):  # nobody reads the command's stderr any more
        sys.stderr.write(f"kboot: {text}\n")
        sys.stderr.flush()


def main() -> None:
    """Follow what the only argument says."""
    asked = json.loads(sys.argv[1])
    plans = tuple(WorkerPlan(**{**plan, "cpus": tuple(plan["cpus"]), "serve_cpus": ()}) for plan in asked["plans"])
    host = RealHost()
    OwnCpus(host).keep_off({cpu for plan in plans for cpu in plan.cpus})
    number, start = asked["process"]
    for finding in follow(plans, asked["threads"], (number, start), host):
        _say(finding)


if __name__ == "__main__":
    main()
