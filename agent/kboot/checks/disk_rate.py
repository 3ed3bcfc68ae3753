"""Do the disks give the checkpoint fast enough?"""

from __future__ import annotations

from kboot.checkpoint import CheckpointFacts
from kboot.checks.asked import gap_reason
from kboot.checks.types import Check, Finding
from kboot.checks.words import count
from kboot.facts.types import NodeFacts
from kboot.profile.types import Profile
from kboot.quantities import show_bytes, show_roughly

TARGET_S = 120
SLOW_FAULTS_BYTES_S = 100 << 20
"""Mapped loading from network file systems was measured at 28 MiB/s (29 MB/s) where the same files read at GB/s."""


def run(facts: NodeFacts, profile: Profile | None, checkpoint: CheckpointFacts | None) -> Finding:
    """Predict the load time from the measured rate; mapped loading may be far slower than the disk."""
    if checkpoint is None or not any(f.is_whole for f in checkpoint.files):
        return Finding("skip", "no file of the checkpoint is here to be read")
    disk, mapped = facts.measured.disk, facts.measured.mapped
    if disk is None or disk.bytes_per_s <= 0:
        return Finding("unknown", f"the rate could not be measured ({gap_reason(facts, 'measured')})")
    size_bytes = checkpoint.listing.size_bytes
    load_s = size_bytes / disk.bytes_per_s
    large = f"{show_bytes(disk.bytes_per_s)}/s"
    seen = (
        f"the disks read at {large} ({count(disk.streams, 'stream')}): "
        f"{show_bytes(size_bytes)} take {show_roughly(load_s)}, the target is {show_roughly(TARGET_S)}"
    )
    if mapped and mapped.bytes_per_s < min(SLOW_FAULTS_BYTES_S, disk.bytes_per_s / 4):
        return Finding(
            "warn",
            f"mapped pages come at {show_bytes(mapped.bytes_per_s)}/s, large reads at {large}: "
            f"mapped loading takes {show_roughly(size_bytes / max(1.0, mapped.bytes_per_s))}",
            wanted="loading that reads ahead",
            why="each page fault waits for the file server or disk by itself",
            hint="let kboot warm the files first ([warm] enabled = true), or load with prefetch "
            "(vLLM: --safetensors-load-strategy prefetch), or keep the checkpoint on a local disk",
        )
    if load_s <= TARGET_S:
        return Finding("ok", seen)
    ready_s = profile.serve.ready_timeout_s if profile else None
    return Finding(
        "fail" if ready_s is not None and load_s > ready_s else "warn",
        seen,
        wanted=f"{show_bytes(size_bytes / TARGET_S)}/s",
        why=f"a cold boot waits {show_roughly(load_s)} for the disks"
        + (f"; serve.ready_timeout_s is {ready_s}" if ready_s is not None and load_s > ready_s else ""),
        hint="put the checkpoint on several NVMe disks (RAID 0), raise read-ahead, or keep it in memory between boots",
    )


CHECK = Check(
    id="disk.rate",
    asks="Do the disks give the checkpoint fast enough?",
    source="measured: real shards read past the page cache, and pages of a mapping touched one by one",
    modes=frozenset({"full", "deep"}),
    run=run,
)
