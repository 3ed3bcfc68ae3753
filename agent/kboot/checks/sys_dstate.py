"""Do processes wait for a disk or driver that does not answer?"""

from __future__ import annotations

from kboot.checkpoint import CheckpointFacts
from kboot.checks.asked import gap_reason, unread
from kboot.checks.types import ON_A_NODE, Check, Finding
from kboot.checks.words import count, some
from kboot.facts.types import NodeFacts
from kboot.profile.types import Profile

STUCK_S = 4.0


def run(facts: NodeFacts, profile: Profile | None, checkpoint: CheckpointFacts | None) -> Finding:
    """A process in uninterruptible sleep cannot be killed; whoever touches the same device joins it."""
    blocked = facts.upkeep.blocked
    if blocked is None:
        if unread(facts, "upkeep"):
            return Finding("unknown", f"the processes could not be looked at ({gap_reason(facts, 'upkeep')})")
        return Finding("skip", "this recording has no processes")
    hung = {e.code: e for e in facts.health.kernel_events or () if e.kind == "hung-task"}
    stuck = [p for p in blocked if p.waited_s >= STUCK_S or p.pid in hung]
    if not stuck:
        waiting = f"; {count(len(blocked), 'process', 'processes')} waited just now" if blocked else ""
        return Finding("ok", f"none is stuck{waiting}")
    return Finding(
        "warn",
        "in state D: " + some(f"{p.name} (pid {p.pid}{f', in {p.where}' if p.where else ''})" for p in stuck),
        wanted=f"no process that does not run once in {STUCK_S:.0f} s",
        why="what it waits for does not answer: a fetch, a load or a driver call may hang in the same place",
        hint="`cat /proc/PID/stack` and `dmesg | tail` name the device; a dead network file system: `umount -f`",
    )


CHECK = Check(
    id="sys.dstate",
    asks="Do processes wait for a disk or driver that does not answer?",
    source="/proc/*/{stat,status,wchan}; /dev/kmsg",
    modes=ON_A_NODE,
    run=run,
)
