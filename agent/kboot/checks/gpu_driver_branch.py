"""Is the driver of a branch that the vendor still mends?"""

from __future__ import annotations

from kboot.checkpoint import CheckpointFacts
from kboot.checks.drivers import BRANCHES, READ_ON, branch_of, month_of
from kboot.checks.types import ON_A_NODE, Check, Finding
from kboot.facts.types import NodeFacts
from kboot.profile.types import Profile


def run(facts: NodeFacts, profile: Profile | None, checkpoint: CheckpointFacts | None) -> Finding:
    """Compare the branch's last month with today; a branch that the table does not list is not judged."""
    gpu = facts.gpu
    if not gpu.gpus and gpu.nvml in ("ok", "no-library", "no-driver"):
        return Finding("skip", "no GPU is listed")
    number = branch_of(gpu.driver_version)
    if number is None:
        return Finding("unknown", f"the driver's version was not told ({gpu.nvml})")
    branch = BRANCHES.get(number)
    if branch is None:
        return Finding("skip", f"branch {number} is not in kboot's table of {READ_ON}")
    seen = f"driver {gpu.driver_version}: {branch.kind} branch {number}, mended until {branch.until}"
    today = month_of(facts.collected_unix_s)
    if today is None:
        return Finding("unknown", f"{seen}; this machine's clock has no date")
    if today <= branch.ends:
        return Finding("ok", seen)
    living = [number for number, each in BRANCHES.items() if each.kind == "long-term" and today <= each.ends]
    return Finding(
        "warn",
        seen,
        wanted="a branch that is mended",
        why="faults that are found now, security's too, stay in this driver",
        hint=f"plan the upgrade to branch {living[0] if living else 'of long-term support'}, "
        "with the fabric manager of exactly the same version",
    )


CHECK = Check(
    id="gpu.driver_branch",
    asks="Is the driver of a branch that the vendor still mends?",
    source="NVML driver version; the vendor's table of branches",
    modes=ON_A_NODE,
    run=run,
)
