"""Is the main memory free of errors?"""

from __future__ import annotations

from kboot.checkpoint import CheckpointFacts
from kboot.checks.types import ON_A_NODE, Check, Finding
from kboot.facts.types import NodeFacts
from kboot.profile.types import Profile

MANY_CORRECTED = 1000


def run(facts: NodeFacts, profile: Profile | None, checkpoint: CheckpointFacts | None) -> Finding:
    """Errors that were not corrected fail; many corrected ones announce them."""
    errors = facts.system.edac
    if not errors:
        return Finding("skip", "no memory controller reports errors here (virtual machine, or no EDAC driver)")
    corrected, uncorrected = errors.get("corrected", 0), errors.get("uncorrected", 0)
    seen = f"{uncorrected} uncorrected and {corrected} corrected memory errors since boot"
    if not uncorrected and corrected <= MANY_CORRECTED:
        return Finding("ok", seen)
    return Finding(
        "fail" if uncorrected else "warn",
        seen,
        wanted=f"none uncorrected, at most {MANY_CORRECTED} corrected",
        why="weights in memory may be wrong though their file is right" if uncorrected else "a DIMM wears out",
        hint="`ras-mc-ctl --errors` or `dmesg | grep -i edac` names the DIMM; drain the node and replace it",
    )


CHECK = Check(
    id="mem.edac",
    asks="Is the main memory free of errors?",
    source="/sys/devices/system/edac/mc/mc*/{ce,ue}_count",
    modes=ON_A_NODE,
    run=run,
)
