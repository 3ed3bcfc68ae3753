"""Is the GPU memory free of rows that wait for, or could not get, a replacement?"""

from __future__ import annotations

from kboot.checkpoint import CheckpointFacts
from kboot.checks.told import told
from kboot.checks.types import ON_A_NODE, Check, Finding
from kboot.checks.words import count, ranges
from kboot.facts.types import NodeFacts
from kboot.profile.types import Profile


def run(facts: NodeFacts, profile: Profile | None, checkpoint: CheckpointFacts | None) -> Finding:
    """A failure is memory that stays bad; a pending remap needs a reset; remapped rows alone are repaired."""
    rows = told(facts, "remapped", lambda g: g.remapped)
    failed = [index for index, each in rows.values.items() if each.failure]
    if failed:
        return Finding(
            "fail",
            f"row remapping failed on GPU {ranges(failed)}: its spare rows are used up",
            wanted="no failure",
            why="bad memory stays in use and corrupts what an engine keeps there",
            hint="drain the node and replace the GPU",
        )
    pending = [index for index, each in rows.values.items() if each.pending]
    if pending:
        return Finding(
            "warn",
            f"row remapping is pending on GPU {ranges(pending)}",
            wanted="no pending remap",
            why="the bad row is replaced only at the next reset; until then its page is switched off",
            hint=f"`nvidia-smi -r -i {','.join(map(str, pending))}` with no process on it, or reboot soon",
        )
    repaired = sum(each.uncorrectable + each.correctable for each in rows.values.values())
    return rows.rest(f"{count(repaired, 'row')} remapped, none pending, none failed")


CHECK = Check(
    id="gpu.row_remap",
    asks="Is the GPU memory free of rows that wait for, or could not get, a replacement?",
    source="NVML remapped rows",
    modes=ON_A_NODE,
    run=run,
)
