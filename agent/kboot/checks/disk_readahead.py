"""Does the kernel read ahead on the disks?"""

from __future__ import annotations

from kboot.checkpoint import CheckpointFacts
from kboot.checks.fixes import WriteValue
from kboot.checks.types import ON_A_NODE, Check, Finding
from kboot.checks.words import count, some
from kboot.facts.types import NodeFacts
from kboot.profile.types import Profile
from kboot.quantities import show_memory

LEAST_BYTES = 64 << 10
READ_AHEAD = "/sys/block/{}/queue/read_ahead_kb"


def run(facts: NodeFacts, profile: Profile | None, checkpoint: CheckpointFacts | None) -> Finding:
    """Mapped loading faults page by page; without read-ahead each fault is a request of its own."""
    known = [d for d in facts.disks if d.read_ahead_bytes is not None]
    if not known:
        return Finding("skip", "this machine lists no disk")
    low = [d for d in known if (d.read_ahead_bytes or 0) < LEAST_BYTES]
    if not low:
        sizes = sorted({show_memory(d.read_ahead_bytes or 0) for d in known})
        return Finding("ok", f"{some(sizes)} on {count(len(known), 'disk')}")
    return Finding(
        "warn",
        some(f"{d.name}: {show_memory(d.read_ahead_bytes or 0)}" for d in low),
        wanted=f"{show_memory(LEAST_BYTES)} or more",
        why="mapped loading faults one page at a time: tens of MB/s where the disk could give thousands",
        hint="`blockdev --setra 8192 /dev/DISK` (4 MiB), and a udev rule to keep it",
        fixes=tuple(WriteValue(READ_AHEAD.format(d.name), "4096", str((d.read_ahead_bytes or 0) >> 10)) for d in low),
    )


CHECK = Check(
    id="disk.readahead",
    asks="Does the kernel read ahead on the disks?",
    source="/sys/block/*/queue/read_ahead_kb",
    modes=ON_A_NODE,
    run=run,
)
