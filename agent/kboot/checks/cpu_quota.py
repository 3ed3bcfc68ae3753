"""May kboot use as many CPUs as it sees, and are there enough of them for the workers?"""

from __future__ import annotations

from kboot.checkpoint import CheckpointFacts
from kboot.checks.asked import gap_reason, layout_for, workers
from kboot.checks.types import ON_A_NODE, Check, Finding
from kboot.checks.words import count
from kboot.facts.types import NodeFacts
from kboot.profile.types import Profile


def run(facts: NodeFacts, profile: Profile | None, checkpoint: CheckpointFacts | None) -> Finding:
    """Compare cpuset and quota with the workers of the layout."""
    cpu = facts.cpu
    if not cpu.allowed:
        return Finding("unknown", f"the allowed CPUs could not be read ({gap_reason(facts, 'cpu')})")
    allowed = len(cpu.allowed)
    usable = min(float(allowed), cpu.quota_cpus or float(allowed))
    need = workers(layout_for(facts.gpu, profile)) if profile else 1
    seen = f"{allowed} of {count(len(cpu.online), 'CPU')} allowed"
    if cpu.quota_cpus is not None:
        seen += f", quota {cpu.quota_cpus:g}"
    if usable < need:
        return Finding(
            "warn",
            f"{seen}; {count(need, 'worker')} want at least one each",
            wanted=f"{count(need, 'CPU')}",
            why="workers wait for each other's time slices, and loading takes many times longer",
            hint="widen AllowedCPUs=/CPUQuota= of the unit, or `--cpus`/`--cpuset-cpus` of the container",
        )
    if cpu.quota_cpus is not None and cpu.quota_cpus < allowed:
        return Finding(
            "warn",
            f"{seen}: programs that count CPUs start {allowed} threads and are stopped for part of every 100 ms",
            wanted="no quota, or a cpuset of the same size",
            why="stalls in every step of the engine",
            hint="remove CPUQuota= (`--cpus`) and give a cpuset (`AllowedCPUs=`, `--cpuset-cpus`) of that size",
        )
    return Finding("ok", seen)


CHECK = Check(
    id="cpu.quota",
    asks="May kboot use as many CPUs as it sees, and are there enough of them for the workers?",
    source="sched_getaffinity; cpuset.cpus.effective and cpu.max on the cgroup path",
    modes=ON_A_NODE,
    run=run,
)
