"""Does the volume have its blocks, or does it still fetch them from a snapshot?"""

from __future__ import annotations

from kboot.checkpoint import CheckpointFacts
from kboot.checks.asked import gap_reason, unread
from kboot.checks.types import Check, Finding
from kboot.checks.words import count
from kboot.facts.types import NodeFacts
from kboot.plan.origin import LAZY_S, LAZY_TIMES, is_lazy
from kboot.profile.types import Profile
from kboot.quantities import show_bytes


def run(facts: NodeFacts, profile: Profile | None, checkpoint: CheckpointFacts | None) -> Finding:
    """On a volume restored from a snapshot, the first read of each block waits for the object store behind it."""
    if checkpoint is None or not any(f.is_whole for f in checkpoint.files):
        return Finding("skip", "no file of the checkpoint is here to be read")
    found = facts.measured.first_reads
    if found is None:
        if unread(facts, "measured.samples"):
            return Finding("unknown", f"not measured ({gap_reason(facts, 'measured.samples')})")
        return Finding("skip", "this file system does not read past the page cache")
    first, second = found.first_s * 1000, found.second_s * 1000
    seen = (
        f"{count(found.reads, 'block')} read twice: {first:.1f} ms the first time, {second:.1f} ms the second (medians)"
    )
    if not is_lazy(found.reads, found.first_s, found.second_s):
        return Finding("ok", seen)
    return Finding(
        "warn",
        seen,
        wanted=f"less than {LAZY_S * 1000:.0f} ms, or not {LAZY_TIMES} times the second read",
        why=f"every block of {show_bytes(checkpoint.listing.size_bytes)} comes over the network once more: "
        "tens of MB/s where the volume could give thousands",
        hint="initialise the volume (`kboot warm`, or `fio --rw=read --bs=1M --iodepth=32` over the device), "
        "use fast snapshot restore, or fetch onto a local NVMe disk",
    )


CHECK = Check(
    id="disk.lazy_snapshot",
    asks="Does the volume have its blocks, or does it still fetch them from a snapshot?",
    source="measured: blocks of real shards, read twice past the page cache",
    modes=frozenset({"full", "deep"}),
    run=run,
)
