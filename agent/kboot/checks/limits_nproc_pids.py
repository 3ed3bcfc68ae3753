"""May the engine start as many threads as it will?"""

from __future__ import annotations

from kboot.checkpoint import CheckpointFacts
from kboot.checks.asked import layout_for, workers
from kboot.checks.types import ON_A_NODE, Check, Finding
from kboot.facts.types import NodeFacts
from kboot.profile.types import Profile

FOR_EACH_WORKER = 512


def run(facts: NodeFacts, profile: Profile | None, checkpoint: CheckpointFacts | None) -> Finding:
    """Every worker starts threads for its CPUs, its loaders and its network; compilers come on top."""
    pids = facts.system.pids
    if pids is None:
        return Finding("skip", "no cgroup counts threads here")
    used, most = pids
    if most is None:
        return Finding("ok", f"{used:,} threads in use, no limit")
    needed = FOR_EACH_WORKER * workers(layout_for(facts.gpu, profile) if profile else None)
    seen = f"{most - used:,} of {most:,} threads left, {needed:,} wanted"
    if most - used >= needed:
        return Finding("ok", seen)
    return Finding(
        "warn",
        seen,
        wanted=f"{FOR_EACH_WORKER} for each worker",
        why="'Resource temporarily unavailable' when workers or compilers start their threads",
        hint="TasksMax=infinity in the unit; container: `--pids-limit -1`",
    )


CHECK = Check(
    id="limits.nproc_pids",
    asks="May the engine start as many threads as it will?",
    source="pids.current and pids.max of the cgroups on the path",
    modes=ON_A_NODE,
    run=run,
)
