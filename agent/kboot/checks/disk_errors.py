"""Did a disk or file system report errors since boot?"""

from __future__ import annotations

from kboot.checkpoint import CheckpointFacts
from kboot.checks.gpu_xid_recent import no_log
from kboot.checks.types import ON_A_NODE, Check, Finding
from kboot.checks.words import count, some
from kboot.facts.types import NodeFacts
from kboot.profile.types import Profile


def run(facts: NodeFacts, profile: Profile | None, checkpoint: CheckpointFacts | None) -> Finding:
    """Read errors that reached the kernel, file systems that it stopped for them, file servers that fell silent."""
    events = facts.health.kernel_events
    if events is None:
        return no_log(facts)
    switched = [e for e in events if e.kind == "read-only"]
    errors = [e for e in events if e.kind == "io-error"]
    if not switched and not errors:
        silent = [e.text for e in events if e.kind == "server-silent"]
        return _silent(silent) if silent else Finding("ok", "no disk error in the kernel log")
    last = (switched or errors)[-1]
    return Finding(
        "fail" if switched else "warn",
        f"{count(len(errors), 'I/O error')} and {count(len(switched), 'damaged file system')} since boot: {last.text}",
        wanted="none",
        why="nothing can be written there until it is repaired"
        if switched
        else "shards on that disk may not be readable",
        hint="`nvme smart-log` of the disk it names; `kboot verify --mode full`; replace the disk",
    )


def _silent(said: list[str]) -> Finding:
    return Finding(
        "warn",
        some(said),
        wanted="file servers that answer",
        why="whoever reads from that mount hangs, and cannot be stopped, until the server is back",
        hint="`findmnt -t nfs,nfs4,lustre`; is the server, and the way to it, up?",
    )


CHECK = Check(
    id="disk.errors",
    asks="Did a disk or file system report errors since boot?",
    source="/dev/kmsg",
    modes=ON_A_NODE,
    run=run,
)
