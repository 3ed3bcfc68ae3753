"""Does a lock wait for a holder that is gone?"""

from __future__ import annotations

from kboot.checkpoint import CheckpointFacts
from kboot.checks.asked import gap_reason
from kboot.checks.fixes import PutAside
from kboot.checks.types import EVERYWHERE, Check, Finding
from kboot.checks.words import count, some
from kboot.facts.types import NodeFacts
from kboot.profile.types import Profile
from kboot.quantities import show_roughly

SILENT_S = 3600.0
"""A holder that says nothing for so long is worth a look; a large build or fetch gives signs of life."""


def run(facts: NodeFacts, profile: Profile | None, checkpoint: CheckpointFacts | None) -> Finding:
    """Those that are a mere file stay when their process is killed, and whoever comes next waits."""
    locks = facts.kept.locks
    if locks is None:
        return Finding("unknown", f"the locks could not be looked at ({gap_reason(facts, 'kept')})")
    dead = [lock for lock in locks if lock.state == "dead"]
    late = [lock for lock in locks if lock.state != "dead" and lock.quiet_s > SILENT_S]
    if not dead and not late:
        return Finding("ok", f"none of {count(len(locks), 'lock')} in use is stale" if locks else "no lock is held")
    found = [f"{lock.path} (of {lock.holder or 'nobody'}, gone)" for lock in dead]
    found += [
        f"{lock.path} (of {lock.holder or 'an unknown process'}, no sign for {show_roughly(lock.quiet_s)})"
        for lock in late
    ]
    return Finding(
        "warn",
        some(found, 3),
        wanted="no lock without a live holder",
        why="the next fetch or build waits for it: some programs without end",
        hint="`kboot doctor --fix` puts aside those of the Hub's client, `kboot boot` those of torch builds"
        if dead
        else f"see whether {late[0].holder or 'its holder'} still works; stop it if it hangs",
        fixes=tuple(
            PutAside(lock.path, f"the lock of {lock.holder or 'nobody'}") for lock in dead if lock.kind == "file"
        ),
    )


CHECK = Check(
    id="ckpt.stale_locks",
    asks="Does a lock wait for a holder that is gone?",
    source="lock files of kboot, of hub/.locks, of torch builds in cache/; /proc/locks; /proc/PID",
    modes=EVERYWHERE,
    run=run,
)
