"""Does the kernel make huge pages without stopping programs for them?"""

from __future__ import annotations

from kboot.checkpoint import CheckpointFacts
from kboot.checks.fixes import WriteValue
from kboot.checks.types import ON_A_NODE, Check, Finding
from kboot.facts.types import NodeFacts
from kboot.profile.types import Profile


def run(facts: NodeFacts, profile: Profile | None, checkpoint: CheckpointFacts | None) -> Finding:
    """Huge pages for everybody are only trouble where every page fault may also stop to compact memory."""
    thp = facts.system.thp
    if "enabled" not in thp:
        return Finding("skip", "this kernel has no transparent huge pages")
    seen = f"enabled: {thp['enabled']}, defrag: {thp.get('defrag', 'not told')}"
    if thp["enabled"] != "always" or thp.get("defrag") != "always":
        return Finding("ok", seen)
    return Finding(
        "warn",
        seen,
        wanted="madvise for at least one of them",
        why="page faults stop to compact memory while hundreds of GB of weights are mapped",
        hint="`echo madvise > /sys/kernel/mm/transparent_hugepage/defrag`, or [tune] settings of the profile",
        fixes=(WriteValue("/sys/kernel/mm/transparent_hugepage/defrag", "madvise", "always"),),
    )


CHECK = Check(
    id="mem.thp",
    asks="Does the kernel make huge pages without stopping programs for them?",
    source="/sys/kernel/mm/transparent_hugepage/{enabled,defrag}",
    modes=ON_A_NODE,
    run=run,
)
