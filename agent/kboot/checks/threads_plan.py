"""Have the engine's live workers the CPUs and threads that were planned for them?"""

from __future__ import annotations

from collections.abc import Sequence

from kboot.checkpoint import CheckpointFacts
from kboot.checks.asked import gap_reason
from kboot.checks.types import ON_A_NODE, Check, Finding
from kboot.checks.words import count, some
from kboot.facts.asked_types import LiveWorker
from kboot.facts.types import NodeFacts
from kboot.profile.types import Profile


def run(facts: NodeFacts, profile: Profile | None, checkpoint: CheckpointFacts | None) -> Finding:
    """Compare each live worker with its plan: where its threads may run, their number, its environment."""
    workers = facts.asked.workers
    if workers is None:
        if any(gap.fact == "asked.workers" for gap in facts.gaps):
            return Finding("unknown", f"the live workers could not be seen ({gap_reason(facts, 'asked.workers')})")
        return Finding("skip", "nobody looked for a live engine (recorded machine)")
    if not workers:
        return Finding("skip", "no engine that kboot prepared runs here now")
    off = [text for worker in workers for text in _off_plan(worker)]
    if off:
        return Finding(
            "warn",
            some(off, 3),
            wanted=f"{count(len(workers), 'worker')} as planned",
            why="threads beyond a worker's CPUs spin against each other: loading was seen 43 to 52 times slower",
            hint="restart the engine: `systemctl restart kboot-engine`; `kboot status` shows each worker",
        )
    tasks = sum(worker.tasks for worker in workers)
    planned = sorted({worker.threads for worker in workers})
    return Finding(
        "ok",
        f"{count(len(workers), 'worker')} on their planned CPUs, {_threads(planned)} each; "
        f"{count(tasks, 'thread')} seen",
    )


def _threads(planned: Sequence[int]) -> str:
    return count(planned[0], "OpenMP thread") if len(planned) == 1 else f"{some(planned)} OpenMP threads"


def _off_plan(worker: LiveWorker) -> tuple[str, ...]:
    changed = tuple(
        f"worker {worker.worker} has {name}={found or '(not set)'}, planned {planned}"
        for name, (planned, found) in sorted(worker.variables.items())
    )
    return (*worker.off_plan, *changed)


CHECK = Check(
    id="threads.plan",
    asks="Have the engine's live workers the CPUs and threads that were planned for them?",
    source="the hand-off record; /proc/PID/{status,task,environ} of the workers",
    modes=ON_A_NODE,
    run=run,
)
