"""Was memory enough since boot, and is it now?"""

from __future__ import annotations

from kboot.checkpoint import CheckpointFacts
from kboot.checks.gpu_xid_recent import no_log
from kboot.checks.types import ON_A_NODE, Check, Finding
from kboot.checks.words import count
from kboot.facts.types import NodeFacts
from kboot.profile.types import Profile

STALLED_PERCENT = 10.0
_KILLED = "an engine that is killed while it loads starts again from nothing"
_WAITS = "what loads now takes longer than the disks need for it; nothing is wrong if a boot or a copy just ran"


def run(facts: NodeFacts, profile: Profile | None, checkpoint: CheckpointFacts | None) -> Finding:
    """Processes that were killed for memory, and time in which all tasks waited for memory."""
    killed = [e for e in facts.health.kernel_events or () if e.kind == "oom"]
    stalled = {name: p for name, p in facts.system.stalled_percent.items() if p > STALLED_PERCENT}
    if killed or stalled:
        waits = [f"all tasks waited {p:.0f} % of the last minute for {name}" for name, p in sorted(stalled.items())]
        disks_alone = not killed and set(stalled) == {"io"}
        kills = [f"{count(len(killed), 'process', 'processes')} killed for memory: {killed[-1].text}"] if killed else []
        return Finding(
            "warn",
            "; ".join([*kills, *waits]),
            wanted=f"no kill, and less than {STALLED_PERCENT:.0f} % stalled",
            why=_WAITS if disks_alone else _KILLED,
            hint="what reads and writes: `iotop -o`; what the disks give: disk.rate, disk.errors"
            if disks_alone
            else "compare fit.ram; look for who takes the memory with `systemd-cgtop -m` and `dmesg | grep -i oom`",
        )
    if facts.health.kernel_events is None:
        return no_log(facts)
    return Finding("ok", "no process was killed for memory since boot")


CHECK = Check(
    id="sys.oom",
    asks="Was memory enough since boot, and is it now?",
    source="/dev/kmsg; /proc/pressure/{memory,io}",
    modes=ON_A_NODE,
    run=run,
)
