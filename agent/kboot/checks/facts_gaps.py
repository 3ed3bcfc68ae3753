"""What of this node could not be read?"""

from __future__ import annotations

from kboot.checkpoint import CheckpointFacts
from kboot.checks.types import EVERYWHERE, Check, Finding
from kboot.checks.words import count, some
from kboot.facts.types import NodeFacts
from kboot.profile.types import Profile

USUAL = (".numa_node", ".cpu_affinity", "cpu.model", "health.kernel_events")
"""Many sound machines do not tell these. numa.gpu_node says where the first two matter; nothing rests on the third; the
checks that read the kernel log say what they could not see."""


def run(facts: NodeFacts, profile: Profile | None, checkpoint: CheckpointFacts | None) -> Finding:
    """Name every gap but the usual ones; a value that is not known is not known to be right."""
    ordered = sorted((g for g in facts.gaps if not g.fact.endswith(USUAL)), key=lambda g: (g.fact, g.source))
    if not ordered:
        return Finding("ok", "every fact was read")
    return Finding(
        "unknown",
        f"{count(len(ordered), 'fact')} not read: " + some((f"{g.fact} ({g.source}: {g.reason})" for g in ordered), 6),
        wanted="every fact",
        why="checks that need them answer unknown, and a plan leaves out what rests on them",
        hint="`kboot facts --json` lists them; permissions of a container or an unprivileged user are the usual cause",
    )


CHECK = Check(
    id="facts.gaps",
    asks="What of this node could not be read?",
    source="every collector",
    modes=EVERYWHERE,
    run=run,
)
